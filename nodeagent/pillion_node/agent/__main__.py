"""`python -m pillion_node.agent`: what `pillion agent` runs, and what `pillion exec` starts."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from pillion_node import gate
from pillion_node.agent.config import GATE_LIBRARY_VARIABLE, AgentError, Config, default_directory
from pillion_node.agent.devices import find_devices
from pillion_node.agent.log import Log
from pillion_node.agent.loop import Agent
from pillion_node.pages import LayoutError

EMULATED_VARIABLE = "PILLION_EMULATED_GPU"


def gate_library() -> Path:
    """Return the gate that this agent's processes are to load: another build's where PILLION_GATE_LIBRARY names one.

    Raises:
        GateError: There is none.
    """
    named = os.environ.get(GATE_LIBRARY_VARIABLE)
    return Path(named) if named else gate.library_path()


def main(arguments: list[str] | None = None) -> int:
    """Run an agent until it is asked to end; 0, or 1 with the reason on standard error."""
    parser = argparse.ArgumentParser(prog="pillion agent", description="Decide who may submit to this machine's GPUs.")
    parser.add_argument("--directory", type=Path, default=None, help="of its sockets and state (default: this user's)")
    parser.add_argument(
        "--idle-exit", type=float, default=0, metavar="SECONDS", help="end after so long without tenants"
    )
    parser.add_argument("--ready-fd", type=int, default=None, help="write a line there when the sockets are there")
    given = parser.parse_args(arguments)
    emulated = os.environ.get(EMULATED_VARIABLE)
    try:
        config = Config(
            directory=given.directory or default_directory(),
            gate_library=gate_library(),
            idle_exit_ns=round(given.idle_exit * 1e9),
        )
        agent = Agent(config, find_devices(Path(emulated) if emulated else None), Log())
    except (AgentError, LayoutError, gate.GateError, OSError) as error:
        sys.stderr.write(f"pillion agent: {error}\n")
        return 1
    agent.stop_on_signals()
    if given.ready_fd is not None:
        os.write(given.ready_fd, b"ready\n")
        os.close(given.ready_fd)
    agent.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
