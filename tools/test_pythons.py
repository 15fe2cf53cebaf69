"""Run the authors' side's tests on every supported Python that this machine has, other than the one that runs this.

Usage: test_pythons.py UV PYTEST_ARGUMENT...
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SUPPORTED = ("3.10", "3.11", "3.12", "3.13")


def find(version: str) -> str | None:
    """Return an interpreter that says it is of this version: one on the PATH, or one that pyenv keeps."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(f"python{version}")
    for candidate in ([on_path] if on_path else []) + sorted(map(str, kept.glob(f"{version}.*/bin/python"))):
        if _version(candidate) == version:
            return candidate
    return None


def _version(interpreter: str) -> str:
    said = subprocess.run(
        [interpreter, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.strip()


def main(uv: str, arguments: list[str]) -> int:
    """Return the first failure's exit code, or 0. Says which versions are missing, and how to get them."""
    current = f"{sys.version_info.major}.{sys.version_info.minor}"
    for version in SUPPORTED:
        if version == current:
            continue
        interpreter = find(version)
        if interpreter is None:
            print(f"SKIPPED Python {version}: not on this machine; install it, or: {uv} python install {version}")
            continue
        print(f"== Python {version}", flush=True)
        folder = f".venv-{version}"
        environment = {**os.environ, "UV_PROJECT_ENVIRONMENT": folder}
        sync = ["sync", "-q", "--frozen", "--python", interpreter, "--no-default-groups", "--group", "authoring"]
        for command in (sync, ["run", "--frozen", "--no-sync", "pytest", *arguments]):
            code = subprocess.run([uv, *command], env=environment, check=False).returncode
            if code:
                return code
            if _version(f"{folder}/bin/python") != version:
                print(f"{folder} is not of Python {version}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
