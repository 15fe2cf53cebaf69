"""Run the authors' side's tests on every supported Python that this machine has, other than the one that runs this.

Usage: test_pythons.py UV PYTEST_ARGUMENT...
"""

from __future__ import annotations

import os
import subprocess
import sys

SUPPORTED = ("3.10", "3.11", "3.12", "3.13")


def main(uv: str, arguments: list[str]) -> int:
    """Return the first failure's exit code, or 0. Says which versions are missing, and how to get them."""
    current = f"{sys.version_info.major}.{sys.version_info.minor}"
    for version in SUPPORTED:
        if version == current:
            continue
        if subprocess.run([uv, "python", "find", "-q", "--no-python-downloads", version], stdout=subprocess.DEVNULL,
                          check=False).returncode:  # fmt: skip
            print(f"SKIPPED Python {version}: not on this machine; install it, or: {uv} python install {version}")
            continue
        print(f"== Python {version}", flush=True)
        environment = {**os.environ, "UV_PROJECT_ENVIRONMENT": f".venv-{version}"}
        for command in (
            ["sync", "-q", "--frozen", "--python", version],
            ["run", "--frozen", "--no-sync", "pytest", *arguments],
        ):
            code = subprocess.run([uv, *command], env=environment, check=False).returncode
            if code:
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
