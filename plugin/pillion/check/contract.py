"""The contract's values: each annotation by itself, then all that reach a pod together."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pillion.authoring.findings import Finding
from pillion.authoring.manifests.document import Path_
from pillion.authoring.manifests.steps import Step, at
from pillion.check.manifest import Manifest, found
from pillion.policy import BY_KEY, PREFIX, Problem, echo, examine, inconsistencies, is_ours, omissions

# `{{inputs.parameters.x}}`, also without blanks or with; expressions (`{{=…}}`) are Argo's to judge.
_VARIABLE = re.compile(r"\{\{\s*([^={}][^{}]*?)\s*\}\}")
_OWN_INPUT = re.compile(r"inputs\.parameters\.([\w-]+)", re.ASCII)
# What Argo fills in for the task that calls a template, before the template is looked at.
_OF_THE_CALLER = re.compile(r"(item|tasks|steps)\b")


def values(manifest: Manifest) -> Iterator[Finding]:
    """Check each annotation's key and value."""
    for step in manifest.steps:
        yield from _values(step)


def _values(step: Step) -> Iterator[Finding]:
    _, problems = examine(step.annotations, parameters=step.platform == "argo")
    for problem in problems:
        yield _at(step, problem.key or "", problem)
    for key in step.annotations:
        near = None if is_ours(key) else _nearly_ours(key)
        if near is not None:
            yield _at(step, key, near)


def _at(step: Step, key: str, problem: Problem) -> Finding:
    document = step.metadata_document or step.document
    return found(document, (*step.metadata_path, "annotations", key), problem.at(step.where))


def _nearly_ours(key: Any) -> Problem | None:
    """A known name after a prefix that is nearly ours, such as `pilion.dev/share`."""
    prefix, slash, name = key.partition("/") if isinstance(key, str) else ("", "", "")
    if not slash or PREFIX + name not in BY_KEY:
        return None
    if difflib.SequenceMatcher(None, prefix.lower(), PREFIX[:-1]).ratio() < 0.75:  # pillion.io, pilion.dev, pillion
        return None
    return Problem(
        "unknown-key", f"{echo(key)[1:-1]} is not an annotation that Pillion knows",
        f"they begin with {PREFIX}", f"did you mean {PREFIX}{name}?",
    )  # fmt: skip


def combinations(manifest: Manifest) -> Iterator[Finding]:
    """Check what reaches each pod: what a workflow says for all of its pods, and the template over it."""
    owners = _Owners(manifest)
    for step in manifest.steps:
        if step.shared or not step.makes_pod:
            continue
        effective = {key: value for key, value in step.effective.items() if is_ours(key)}
        terms, problems = examine(effective, parameters=step.platform == "argo")
        if not effective or problems:
            continue
        for problem in inconsistencies(terms) + omissions(terms):
            owner = owners.of(step, problem.key or "")
            yield _at(owner, problem.key or "", problem)


class _Owners:
    """Whose word an annotation of a pod is: the template's own, or that of the workflow it belongs to."""

    def __init__(self, manifest: Manifest) -> None:
        self._shared: dict[tuple[int, Path_], list[Step]] = {}
        for step in manifest.steps:
            if step.shared:
                self._shared.setdefault((id(step.document), step.root), []).insert(0, step)

    def of(self, step: Step, key: str) -> Step:
        candidates = [step, *self._shared.get((id(step.document), step.root), ())]
        said = [owner for owner in candidates if key in owner.annotations]
        ours = [owner for owner in candidates if any(map(is_ours, owner.annotations))]
        owner: Step = (said or ours or candidates)[0]
        return owner


def parameters(manifest: Manifest) -> Iterator[Finding]:
    """Check that the Argo parameters in a template's annotations are ones that the template has."""
    for step in manifest.steps:
        # What stands inline in a task is filled in with the task, so it knows everything that the task does.
        if step.platform != "argo" or step.shared or "inline" in step.path:
            continue
        declared = _declared(step.raw) | _declared(at(step.document.data, (*step.root, "templateDefaults")))
        for key, value in step.annotations.items():
            if not is_ours(key) or not isinstance(value, str):
                continue
            for variable in _VARIABLE.findall(value):
                problem = _unknown(variable, declared)
                if problem:
                    yield _at(step, key, problem)


def _declared(template: Any) -> set[str]:
    declared = at(template, ("inputs", "parameters"))
    items = declared if isinstance(declared, list) else []
    return {str(item.get("name")) for item in items if isinstance(item, Mapping)}


def _unknown(variable: str, declared: set[str]) -> Problem | None:
    own = _OWN_INPUT.fullmatch(variable)
    if own and own[1] not in declared:
        near = difflib.get_close_matches(own[1], declared, n=1)
        fix = f"did you mean {near[0]}?" if near else "declare it below inputs.parameters"
        names = ", ".join(sorted(declared)) or "none"
        return Problem(
            "unknown-parameter", f"{{{{{variable}}}}} is not an input of this template", f"its inputs are {names}", fix
        )
    if _OF_THE_CALLER.match(variable):
        return Problem(
            "unknown-parameter", f"{{{{{variable}}}}} is known where the template is called, not inside it",
            "inside it only its own inputs and the workflow's values are known",
            "pass it as an argument, and write {{inputs.parameters.NAME}}",
        )  # fmt: skip
    return None
