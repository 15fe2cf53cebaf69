"""What the translations share: reading foreign amounts, collecting findings, removing words without leaving husks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from typing import Any

from pillion.authoring.findings import Finding
from pillion.authoring.manifests.document import Document, Path_
from pillion.authoring.manifests.steps import Step, at
from pillion.policy import BY_FIELD, Memory, PolicyError, Problem, read_term

_WHOLE = re.compile(r"[0-9]{1,12}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?|\.[0-9]{1,12}", re.ASCII)


@dataclass
class Words:
    """The foreign words of one step, while they are being translated."""

    step: Step
    removals: list[tuple[Document, Path_]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def annotation(self, key: str) -> Any:
        """Return an annotation of this step, to be removed; None if it has none."""
        value = self.step.annotations.get(key)
        if value is not None:
            self.removals.append((self._document, self.place(key)))
        return value

    def place(self, key: str) -> Path_:
        """Return where an annotation stands."""
        return (*self.step.metadata_path, "annotations", key)

    @property
    def _document(self) -> Document:
        return self.step.metadata_document or self.step.document

    def error(self, path: Path_, what: str, allowed: str, fix: str = "", *, metadata: bool = False) -> None:
        """Report something that cannot be translated; `metadata` says that `path` is an annotation's."""
        self._report("cannot-translate", path, (what, allowed, fix), metadata=metadata, warning=False)

    def note(self, path: Path_, what: str, allowed: str, fix: str = "", *, metadata: bool = False) -> None:
        """Report how something was translated that has no exact counterpart."""
        self._report("inexact-translation", path, (what, allowed, fix), metadata=metadata, warning=True)

    def _report(self, code: str, path: Path_, said: tuple[str, str, str], *, metadata: bool, warning: bool) -> None:
        document = self._document if metadata else self.step.document
        problem = Problem(code, *said, where=self.step.where)
        self.findings.append(document.finding(path, problem, warning=warning))


def whole(value: Any) -> int | None:
    """Read a whole number, as text or as a number; None if it is neither."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return int(text) if _WHOLE.fullmatch(text) else None


def decimal(value: Any) -> Decimal | None:
    """Read a decimal fraction, as text or as a number; None if it is neither."""
    text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    return Decimal(text) if _DECIMAL.fullmatch(text) else None


def share_milli(fraction: Decimal) -> int | None:
    """Return a fraction of a GPU as a share, rounded up to thousandths; None if the contract has no such share."""
    milli = (fraction * 1000).to_integral_value(ROUND_CEILING)
    try:
        read: int = read_term(BY_FIELD["share_milli"], f"{milli}m", subject="share", parameters=False)
    except PolicyError:
        return None
    return read


def mebibytes(count: int) -> Memory | None:
    """Return an amount of memory given in MiB; None if the contract has no such amount."""
    try:
        memory: Memory = read_term(BY_FIELD["memory"], f"{count}Mi", subject="memory", parameters=False)
    except PolicyError:
        return None
    return memory


def without_husks(document: Document, paths: Iterable[Path_]) -> list[Path_]:
    """Return the paths to remove so that no empty `limits`, `requests` or `resources` is left of these."""
    gone = set(paths)
    for husk in ("limits", "requests", "resources"):
        for parent in {path[:-1] for path in gone if len(path) > 1 and path[-2] == husk}:
            held = at(document.data, parent)
            if isinstance(held, dict) and all((*parent, key) in gone for key in held):
                gone = {path for path in gone if path[:-1] != parent} | {parent}
    return sorted(gone, key=str)


def scheduler(words: Words, name: str) -> None:
    """Remove the foreign scheduler's name, since the pod's claim is allocated by kube-scheduler."""
    step = words.step
    path = (*step.path, "spec", "schedulerName") if step.platform == "kubernetes" else (*step.path, "schedulerName")
    if at(step.document.data, path) == name:
        words.removals.append((step.document, path))
        words.note(
            path, f"schedulerName {name} is removed", "kube-scheduler places the pods that share a GPU through Pillion",
            "put it back if that scheduler allocates resource claims in your cluster",
        )  # fmt: skip
    elif at(step.document.data, (*step.root, "schedulerName")) == name and step.platform == "argo":
        words.note(
            (*step.root, "schedulerName"), f"schedulerName {name} stays for the whole workflow",
            "kube-scheduler places the pods that share a GPU through Pillion", "remove it if no step needs it",
        )  # fmt: skip
