"""Checking one file: read it, apply every rule, sort what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pillion.authoring.findings import Finding, ManifestError
from pillion.authoring.manifests.document import Document, parse, read_text, without_collector
from pillion.authoring.manifests.steps import steps
from pillion.check.containers import containers
from pillion.check.contract import combinations, parameters, values
from pillion.check.fields import fields
from pillion.check.kfp import policies
from pillion.check.kinds import kinds
from pillion.check.labels import labels
from pillion.check.manifest import Manifest, objects
from pillion.check.placement import placement
from pillion.check.preemption import preemption
from pillion.check.references import references
from pillion.check.translation import translation

_FAMILIES: tuple[Callable[[Manifest], Iterator[Finding]], ...] = (
    kinds, fields, values, combinations, parameters, labels, placement, containers, preemption, references, policies,
    translation,
)  # fmt: skip


def check_file(path: Path) -> list[Finding]:
    """Check one file.

    Raises:
        OSError: It cannot be read.
    """
    try:
        text = read_text(path)
    except ManifestError as error:
        return list(error.findings)
    return check_text(text, str(path))


def check_text(text: str, file: str) -> list[Finding]:
    """Check a manifest's text; `file` is the name that findings use.

    Returns:
        Everything found, in the order of its place. Text that cannot be read to its end is checked up to there.
    """
    documents: list[Document] = []
    findings: list[Finding] = []
    with without_collector():
        try:
            documents.extend(parse(text, file))
        except ManifestError as error:
            findings.extend(error.findings)
        findings += check_documents(documents, file)
    return _sorted(findings)


def check_documents(documents: Iterable[Document], file: str) -> list[Finding]:
    """Check the documents of one file; those of KFP's pipeline and platform belong together."""
    held = tuple(documents)
    manifest = Manifest(
        file, held, tuple(thing for document in held for thing in objects(document)), tuple(steps(held))
    )
    findings = [problem for document in held for problem in document.problems]
    for family in _FAMILIES:
        findings += family(manifest)
    return _sorted(findings)


def _sorted(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by place. What aliases repeat is told once, for the first step that has it."""
    once: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        problem = finding.problem
        once.setdefault((finding.position, problem.code, problem.what, problem.allowed, problem.fix), finding)
    return sorted(once.values(), key=_place)


def _place(finding: Finding) -> tuple[int, int, str]:
    position = finding.position
    return (position.line, position.column, finding.problem.code) if position else (0, 0, finding.problem.code)
