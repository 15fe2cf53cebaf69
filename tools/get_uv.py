"""Install uv from PyPI into a folder of its own; needs only Python, and says what to do where that is too little.

Usage: get_uv.py FOLDER VERSION
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 10)


def main(folder: Path, version: str) -> None:
    """Leave `folder/bin/uv` in the given version."""
    if sys.version_info < OLDEST:
        sys.exit(
            f"Pillion needs Python 3.10 or newer; {sys.executable} is {sys.version.split()[0]}. "
            "Name another one: make PYTHON=python3.12 …"
        )
    if not _make_venv(folder):
        # Debian and Ubuntu ship Python without ensurepip; as root it is one package away.
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            sys.exit("This Python cannot make virtual environments. On Debian or Ubuntu: apt-get install python3-venv")
        subprocess.run(["apt-get", "update", "-q"], check=True)
        subprocess.run(["apt-get", "install", "-q", "-y", "python3-venv"], check=True)
        if not _make_venv(folder):
            sys.exit("This Python still cannot make virtual environments, though python3-venv is installed.")
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "-q", f"uv=={version}"], check=True)


def _make_venv(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return subprocess.run([sys.executable, "-m", "venv", folder], check=False).returncode == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
