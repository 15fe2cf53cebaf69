"""A mistake with its place in a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pillion.policy import Problem

Severity = Literal["error", "warning"]


@dataclass(frozen=True, order=True)
class Position:
    """A place in a text; both numbers count from 1, as editors do."""

    line: int
    column: int


@dataclass(frozen=True)
class Finding:
    """A problem, where it is, and whether it must be mended."""

    file: str
    position: Position | None
    problem: Problem
    severity: Severity = "error"

    def __str__(self) -> str:
        place = f"{self.file}:{self.position.line}:{self.position.column}" if self.position else self.file
        problem = self.problem
        what = f"{problem.where}: {problem.what}" if problem.where else problem.what
        parts = " — ".join(part for part in (what, problem.allowed, problem.fix) if part)
        return f"{place}: {self.severity}[{problem.code}]: {parts}"


class ManifestError(ValueError):
    """A file that cannot be worked on as it stands. `findings` says why and where."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(map(str, self.findings)))
