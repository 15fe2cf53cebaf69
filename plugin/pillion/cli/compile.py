"""`pillion compile`: a Python pipeline or YAML in, a spec out."""

from __future__ import annotations

import json
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from pillion.authoring.manifests.compile import Compiled, compile_text
from pillion.authoring.manifests.settings import Setting, SettingError, parse_setting
from pillion.authoring.programs import pipelines
from pillion.check.report import finding_as_json
from pillion.cli.files import MisuseError, read_manifest, write_whole
from pillion.policy import PREFIX


class Source(str, Enum):
    """Whose words `--from` translates."""

    KAI = "kai"
    HAMI = "hami"
    NVIDIA = "nvidia"


def compile_command(
    file: Annotated[Path, typer.Argument(help="A Python file with a pipeline, or YAML or JSON; - is standard input.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where the spec goes; standard output unless given.")
    ] = None,
    pipeline: Annotated[
        str | None, typer.Option("--pipeline", help="Which pipeline of a Python file, by its variable's name.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="'STEPS: TERM=VALUE,…'",
            help="Give steps a policy. STEPS is a regular expression on their names; the terms are share, limit, "
            "memory, priority, max-slowdown, max-stall, on-preempt, container and retries. Repeatable.",
        ),
    ] = None,
    translate: Annotated[
        Source | None, typer.Option("--from", help="Translate the sharing words of another system.")
    ] = None,
    priority_classes: Annotated[
        bool,
        typer.Option(
            "--priority-classes/--no-priority-classes",
            help="Name the tiers' PriorityClasses in YAML; a cluster refuses pods whose class it lacks.",
        ),
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Report as JSON on standard output; needs --output for the spec.")
    ] = False,
) -> None:
    """Compile a pipeline into a spec whose steps carry their policies.

    A Python file is run, and its KFP pipeline or Hera workflow compiled. In YAML, policies that are already annotated
    are checked and completed; everything else keeps its bytes, comments and order included.

    Exit codes: 0 compiled; 1 there are mistakes, and nothing was written; 2 the command was misused.
    """
    settings = _settings(set_ or [])
    if as_json and output is None:
        raise MisuseError("--json needs --output: standard output carries the report")
    if file.suffix == ".py":
        if not priority_classes:
            raise MisuseError("--no-priority-classes is for YAML; in Python say priority(…, priority_class=False)")
        text, name = _compile_program(file, pipeline), str(file)
    elif pipeline is not None:
        raise MisuseError("--pipeline chooses among the pipelines of a Python file; this is not one")
    else:
        text, name = read_manifest(file)
    source = translate.value if translate else None
    compiled = compile_text(text, name, settings, source, priority_classes=priority_classes and file.suffix != ".py")
    if output is None:
        sys.stdout.write(compiled.text)
        if sys.stdout.isatty() and not compiled.text.endswith("\n"):
            sys.stdout.write("\n")
    else:
        write_whole(output, compiled.text)
    _report(compiled, name, output, as_json=as_json)


def _settings(texts: list[str]) -> tuple[Setting, ...]:
    try:
        return tuple(parse_setting(text) for text in texts)
    except SettingError as error:
        raise MisuseError(f"--set: {error}") from error


def _compile_program(file: Path, wanted: str | None) -> str:
    found = pipelines(file)
    names = ", ".join(found)
    if wanted is not None and wanted not in found:
        raise MisuseError(f"--pipeline is {wanted}; {file} defines {names}")
    if wanted is None and len({entry.sdk for entry in found.values()}) > 1:
        raise MisuseError(f"{file} defines pipelines of several kinds: {names}; choose one with --pipeline")
    chosen = [found[wanted]] if wanted is not None else list(found.values())
    if len(chosen) > 1 and chosen[0].sdk == "kfp":
        raise MisuseError(f"{file} defines several pipelines: {names}; choose one with --pipeline")
    return "---\n".join(entry.compile() for entry in chosen)


def _report(compiled: Compiled, name: str, output: Path | None, *, as_json: bool) -> None:
    """Say on stderr, or as JSON on stdout, what ended up on which step."""
    steps = [
        (name, {key.removeprefix(PREFIX): value for key, value in policy.items()}) for name, policy in compiled.policies
    ]
    if as_json:
        report = {
            "output": str(output),
            "steps": [{"name": step, "policy": policy} for step, policy in steps],
            "findings": [finding_as_json(finding) for finding in compiled.findings],
        }
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
        return
    for finding in compiled.findings:
        typer.echo(str(finding), err=True)
    for step, policy in steps:
        typer.echo(f"{step}: {', '.join(f'{term} {value}' for term, value in policy.items())}", err=True)
    if not steps:
        typer.echo(f"{name}: no step shares a GPU", err=True)
