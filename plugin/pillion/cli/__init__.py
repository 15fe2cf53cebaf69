"""The `pillion` command: one file per subcommand, thin; exit codes: 0 well, 1 mistakes found, 2 misuse."""

from pillion.cli.main import main

__all__ = ["main"]
