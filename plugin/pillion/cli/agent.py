"""`pillion agent`: run the node agent in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pillion.cli.files import need_node


def agent(
    directory: Annotated[
        Path | None,
        typer.Option("--directory", help="Of its sockets and state; /run/pillion on a node. Default: this user's."),
    ] = None,
    idle_exit: Annotated[
        float,
        typer.Option("--idle-exit", metavar="S", min=0, help="End after so long without tenants; 0: never."),
    ] = 0,
) -> None:
    """Decide who may submit to this machine's GPUs; events go to standard error as JSON lines.

    `pillion exec` starts one by itself. SIGTERM ends it; commands under it go on, and join the next one.

    Exit codes: 0 ended as asked; 1 it cannot run here; 2 the command was misused.
    """
    need_node()
    from pillion_node.agent.__main__ import main  # noqa: PLC0415 - optional

    chosen = ["--directory", str(directory)] if directory is not None else []
    raise typer.Exit(main([*chosen, "--idle-exit", str(idle_exit)]))
