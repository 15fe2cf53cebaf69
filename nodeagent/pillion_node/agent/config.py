"""The agent's settings, fixed for its lifetime, and where it lives."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import NamedTuple

DIRECTORY_VARIABLE = "PILLION_AGENT"
GATE_LIBRARY_VARIABLE = "PILLION_GATE_LIBRARY"
NODE_DIRECTORY = Path("/run/pillion")
"""Where a node's own agent lives: gates prefer its socket to any other."""


class AgentError(RuntimeError):
    """The agent cannot start or cannot do what it was asked; the message says why and what to do."""


class Config(NamedTuple):
    """Settings of one agent.

    Attributes:
        directory: Holds its sockets, its lock, and what it remembers of its tenants.
        gate_library: The gate, which describes the pages.
        idle_exit_ns: End after this long without tenants; 0: never.
        heartbeat_ns: How often every lease page gets a new time.
        stale_after_ns: A gate whose agent's last time is older than this goes on without it.
        busy_poll_ns: How often pages are read while tenants contend for a GPU.
        drain_poll_ns: And while somebody waits for another's drain.
        idle_poll_ns: And while no normal or low tenant has work, which is how long the first one may have to wait.
        sample_ns: How often a busy device's accounts are read.
        adoption_ns: How long lower tiers wait for the high steps that a former agent had, before they are let in.
        hello_timeout_ns: A connection that has not introduced itself by then is closed.
        slow_join_ns: The least time between two joins of one process, once it has had its first few.
        most_members: Processes that may have joined at a time.
    """

    directory: Path
    gate_library: Path
    idle_exit_ns: int = 0
    heartbeat_ns: int = 100_000_000
    stale_after_ns: int = 1_000_000_000
    busy_poll_ns: int = 1_000_000
    drain_poll_ns: int = 200_000
    idle_poll_ns: int = 20_000_000
    sample_ns: int = 50_000_000
    adoption_ns: int = 1_000_000_000
    hello_timeout_ns: int = 2_000_000_000
    slow_join_ns: int = 100_000_000
    most_members: int = 4096

    @property
    def gate_socket(self) -> Path:
        """Where gates join."""
        return self.directory / "gate.sock"

    @property
    def control_socket(self) -> Path:
        """Where tenants are registered and status is asked for."""
        return self.directory / "control.sock"

    @property
    def lock(self) -> Path:
        """Held by the one agent of this directory."""
        return self.directory / "agent.lock"

    @property
    def tenants(self) -> Path:
        """One file per tenant, so that the next agent knows them."""
        return self.directory / "tenants"


def default_directory() -> Path:
    """Return this user's agent directory: what PILLION_AGENT says, or one below the user's run-time directory."""
    named = os.environ.get(DIRECTORY_VARIABLE)
    if named:
        return Path(named)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "pillion" if runtime else Path(tempfile.gettempdir()) / f"pillion-{os.getuid()}"


def prepare_directory(directory: Path) -> None:
    """Make the directory, for this user alone.

    Raises:
        AgentError: It belongs to somebody else, or others may write to it: they could stand in for the agent.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022 or not directory.is_dir() or directory.is_symlink():
        raise AgentError(
            f"{directory} must be a directory of this user's that nobody else may write to; "
            f"remove it, or choose another with {DIRECTORY_VARIABLE}"
        )
