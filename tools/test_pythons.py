"""Run the authors' side's tests on every supported Python that this machine has, other than the one that runs this.

Usage: test_pythons.py UV PYTEST_ARGUMENT...
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SUPPORTED = ("3.10", "3.11", "3.12", "3.13")


def find(uv: str, version: str) -> str | None:
    """Return an interpreter of this version: one on the PATH, or one that pyenv keeps without activating it."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [version, *map(str, sorted(kept.glob(f"{version}.*/bin/python")))]
    for candidate in candidates:
        found = subprocess.run(
            [uv, "python", "find", "-q", "--no-python-downloads", candidate],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if found.returncode == 0:
            return found.stdout.strip()
    return None


def main(uv: str, arguments: list[str]) -> int:
    """Return the first failure's exit code, or 0. Says which versions are missing, and how to get them."""
    current = f"{sys.version_info.major}.{sys.version_info.minor}"
    for version in SUPPORTED:
        if version == current:
            continue
        interpreter = find(uv, version)
        if interpreter is None:
            print(f"SKIPPED Python {version}: not on this machine; install it, or: {uv} python install {version}")
            continue
        print(f"== Python {version}", flush=True)
        environment = {**os.environ, "UV_PROJECT_ENVIRONMENT": f".venv-{version}"}
        sync = ["sync", "-q", "--frozen", "--python", interpreter, "--no-default-groups", "--group", "authoring"]
        for command in (sync, ["run", "--frozen", "--no-sync", "pytest", *arguments]):
            code = subprocess.run([uv, *command], env=environment, check=False).returncode
            if code:
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
