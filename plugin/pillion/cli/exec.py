"""`pillion exec`: run a command on this machine's GPU under a policy."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from pillion.cli.files import MisuseError, need_node
from pillion.policy import BY_FIELD, PolicyError, Problem, Terms, read_term, resolve, write

_EMULATED_VARIABLE = "PILLION_EMULATED_GPU"


def exec_command(
    command: Annotated[list[str], typer.Argument(help="The command and its arguments, after --.", metavar="-- CMD…")],
    share: Annotated[
        str | None,
        typer.Option("--share", metavar="0.01…1", help="Guaranteed part of the GPU's time; only low needs none."),
    ] = None,
    limit: Annotated[
        str | None, typer.Option("--limit", metavar="SHARE…1", help="The most of the GPU's time. Default: 1.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", metavar="8Gi", help="GPU memory. Default: share × all; low must say it.")
    ] = None,
    priority: Annotated[
        str | None, typer.Option("--priority", metavar="high|normal|low", help="Who goes first. Default: normal.")
    ] = None,
    max_slowdown: Annotated[
        str | None,
        typer.Option("--max-slowdown", metavar="0.1%…50%", help="Most that lower tiers may slow high."),
    ] = None,
    max_stall: Annotated[
        str | None, typer.Option("--max-stall", metavar="0.1ms…10s", help="Longest single delay of a high step.")
    ] = None,
    on_preempt: Annotated[
        str | None,
        typer.Option("--on-preempt", metavar="wait|suspend|evict", help="If a higher tier needs room."),
    ] = None,
    gpu: Annotated[int, typer.Option("--gpu", min=0, help="Which GPU, counted from 0.")] = 0,
) -> None:
    """Run a command on this machine's GPU under a policy.

    Starts an agent for this user if none runs. Signals go to the command, and its exit code comes back.

    Exit codes: the command's own; 128 + n if signal n ended it; 2 misuse; 125 the policy cannot be kept here; 126 the
    command cannot be run; 127 it was not found.
    """
    annotations = write(
        _policy(
            {
                "share_milli": ("--share", share),
                "limit_milli": ("--limit", limit),
                "memory": ("--memory", memory),
                "tier": ("--priority", priority),
                "max_slowdown_ppm": ("--max-slowdown", max_slowdown),
                "max_stall_ns": ("--max-stall", max_stall),
                "on_preempt": ("--on-preempt", on_preempt),
            }
        )
    )
    need_node()
    from pillion_node import local  # noqa: PLC0415 - optional

    emulated = os.environ.get(_EMULATED_VARIABLE)
    if emulated:
        typer.echo(f"pillion: EMULATED GPU ({emulated}): no real GPU is used, nothing is computed on it", err=True)
    raise typer.Exit(local.run(annotations, gpu, command))


def _policy(options: dict[str, tuple[str, str | None]]) -> Any:
    """Return the policy that the options state, by the contract's own rules.

    Raises:
        MisuseError: With every mistake in them.
    """
    said: dict[str, Any] = {}
    problems: list[Problem] = []
    for field, (option, value) in options.items():
        if value is None:
            continue
        try:
            said[field] = read_term(BY_FIELD[field], value, subject=option, parameters=False)
        except PolicyError as error:
            problems.extend(error.problems)
    if not problems:
        try:
            return resolve(Terms(**said))
        except PolicyError as error:
            problems.extend(error.problems)
    raise MisuseError("\npillion: ".join(str(problem) for problem in problems))
