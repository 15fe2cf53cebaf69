"""`pillion check`: every mistake in a pipeline or a spec, with its place and a fix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from pillion.authoring.findings import Finding, ManifestError
from pillion.authoring.programs import pipelines
from pillion.check import check_text
from pillion.check.report import as_json, as_sarif, as_text
from pillion.cli.files import MISTAKES, MisuseError, read_manifest

_MANIFESTS = (".yaml", ".yml", ".json")


class Format(str, Enum):
    """How findings are written."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def check(
    files: Annotated[
        list[Path],
        typer.Argument(help="YAML, JSON or Python files; folders, for the YAML and JSON in them; - is standard input."),
    ],
    output_format: Annotated[Format, typer.Option("--format", help="How findings are written.")] = Format.TEXT,
    json_: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
) -> None:
    """Find every mistake in pipelines and compiled specs, each with its place and a fix.

    A Python file is run, and each pipeline that it defines is compiled and checked.

    Exit codes: 0 no errors (there may be warnings); 1 errors; 2 the command was misused.
    """
    paths = list(_expand(files))
    findings = [finding for path in paths for finding in _check(path)]
    write = {Format.TEXT: as_text, Format.JSON: as_json, Format.SARIF: as_sarif}
    chosen = Format.JSON if json_ else output_format
    typer.echo(write[chosen](findings, files=len(paths)))
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(MISTAKES)


def _expand(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        below = sorted(file for file in path.rglob("*") if file.suffix in _MANIFESTS and file.is_file())
        if not below:
            raise MisuseError(f"{path} holds no {', '.join(_MANIFESTS)} file")
        yield from below


def _check(path: Path) -> list[Finding]:
    try:
        return list(_findings(path))
    except ManifestError as error:
        return list(error.findings)


def _findings(path: Path) -> Iterator[Finding]:
    if path.suffix != ".py":
        yield from check_text(*read_manifest(path))
        return
    for name, pipeline in pipelines(path).items():
        # A place in the compiled text means nothing to the author of the program; the step's name does.
        for finding in check_text(pipeline.compile(), str(path)):
            where = ", ".join(part for part in (f"pipeline {name}", finding.problem.where) if part)
            yield replace(finding, position=None, problem=finding.problem.at(where))
