"""The command line's entry: the list of subcommands, and what happens to an error that none of them expected."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from pillion import __version__
from pillion.authoring.findings import ManifestError
from pillion.cli.agent import agent
from pillion.cli.check import check
from pillion.cli.compile import compile_command
from pillion.cli.exec import exec_command
from pillion.cli.files import MISTAKES, MISUSE, MisuseError

app = typer.Typer(
    name="pillion",
    help='nice(1) for GPUs, in your pipeline. Steps tagged with a share and a priority share one GPU; see "compile".',
    epilog="Exit codes: 0 all is well; 1 mistakes were found; 2 the command was misused.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("compile")(compile_command)
app.command("check")(check)
app.command("exec", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})(exec_command)
app.command("agent")(agent)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pillion {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line, turning every expected error into a message and an exit code."""
    try:
        app()
    except MisuseError as error:
        _fail(f"pillion: {error}", MISUSE)
    except ManifestError as error:
        _fail(str(error), MISTAKES)
    except BrokenPipeError:
        # The reader of our output (head, less) has left; say nothing, and keep the interpreter from flushing again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(MISTAKES)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _fail(f"pillion: {place}{error.strerror or error}", MISUSE)


def _fail(message: str, code: int) -> None:
    print(message, file=sys.stderr)
    sys.exit(code)
