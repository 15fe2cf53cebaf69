"""What the subcommands share: exit codes, reading files, and writing results whole or not at all."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

from pillion.authoring.manifests.document import MAX_FILE_BYTES, decode, read_text

MISTAKES, MISUSE = 1, 2
STDIN = Path("-")


class MisuseError(Exception):
    """The command line itself is wrong: exit 2."""


def need_node() -> None:
    """Make sure that the part of Pillion for machines with GPUs is installed.

    Raises:
        MisuseError: It is not, or this is not a machine for it.
    """
    if sys.platform != "linux":
        raise MisuseError(f"this command works on Linux only, where GPUs can be shared; this is {sys.platform}")
    if importlib.util.find_spec("pillion_node") is None:
        raise MisuseError("this command needs the node agent, which is not installed; pip install 'pillion[node]'")


def read_manifest(path: Path) -> tuple[str, str]:
    """Return a manifest's text and the name that messages use; `-` is standard input.

    Raises:
        ManifestError: It is not readable text.
        OSError: It cannot be read.
    """
    if path == STDIN:
        return decode(sys.stdin.buffer.read(MAX_FILE_BYTES + 1), "<stdin>"), "<stdin>"
    return read_text(path), str(path)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader, or a crash, sees the old content or the new one and never a part.

    Raises:
        OSError: It cannot be written; the old content is still there.
    """
    target = path.resolve()  # a link stays a link
    if target.exists() and not target.is_file():
        target.write_text(
            text, encoding="utf-8"
        )  # a device or a pipe has no old content to keep, and must not be replaced
        return
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
