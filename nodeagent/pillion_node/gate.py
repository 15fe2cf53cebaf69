"""Where the gate's library is, and what a process needs in its environment to have it in front of the driver."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

NAME = "libpillion-gate.so"
SOCKET_VARIABLE = "PILLION_SOCKET"
_PRELOAD = "LD_PRELOAD"


class GateError(RuntimeError):
    """The gate cannot be put in front of a process."""


def library_path() -> Path:
    """Return the path of the library that this package brought.

    Raises:
        GateError: It was built without one, which is so on everything but Linux.
    """
    path = Path(__file__).resolve().parent / "lib" / NAME
    if not path.is_file():
        raise GateError(f"{path} is not there: the gate is built for Linux on x86-64 and aarch64 only")
    return path


def environment(
    socket_path: Path | None, base: Mapping[str, str] | None = None, library: Path | None = None
) -> dict[str, str]:
    """Return the environment of a process that is to run behind the gate.

    The gate comes first of all preloaded libraries, so that nothing reaches the driver before it.

    Args:
        socket_path: The agent's socket; None leaves the gate open.
        base: The environment to start from; this process's if not given.
        library: The gate's library; the one of this package if not given.
    """
    found = dict(os.environ if base is None else base)
    gate = str(library or library_path())
    others = [entry for entry in found.get(_PRELOAD, "").replace(" ", ":").split(":") if entry and entry != gate]
    found[_PRELOAD] = ":".join([gate, *others])
    found.pop(SOCKET_VARIABLE, None)
    if socket_path is not None:
        found[SOCKET_VARIABLE] = str(socket_path)
    return found
