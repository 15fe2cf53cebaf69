"""The label that tells the webhook which pods are Pillion's business."""

from __future__ import annotations

from collections.abc import Iterator

from pillion.authoring.findings import Finding
from pillion.authoring.manifests.steps import Step
from pillion.check.manifest import Manifest, found
from pillion.policy import BY_KEY, MANAGED_LABEL, MANAGED_VALUE, Problem, echo, is_ours

_MAX_NAMED = 3  # steps that one message names


def labels(manifest: Manifest) -> Iterator[Finding]:
    """Check Pillion's labels: known, well written, and there exactly where there is a policy."""
    unmanaged: dict[tuple[int, tuple[str | int, ...]], list[Step]] = {}
    for step in manifest.steps:
        yield from _own(step)
        if step.shared or not step.makes_pod:
            continue
        policy = any(map(is_ours, step.effective))
        labelled = MANAGED_LABEL in step.effective_labels
        if policy and not labelled:
            problem = Problem(
                "missing-label", f"there is a policy and no label {MANAGED_LABEL}",
                "pods without the label are never touched", f'add {MANAGED_LABEL}: "{MANAGED_VALUE}" to the labels',
            )  # fmt: skip
            yield _at(step, "", problem)
        if labelled and not policy:
            if MANAGED_LABEL in step.labels:
                yield _at(step, MANAGED_LABEL, _without_policy("is set and no policy is"))
            else:
                unmanaged.setdefault((id(step.document), step.root), []).append(step)
    yield from _inherited(manifest, unmanaged)


def _own(step: Step) -> Iterator[Finding]:
    for key, value in step.labels.items():
        if not is_ours(key):
            continue
        if key != MANAGED_LABEL:
            problem = Problem(
                "unknown-label", f"{echo(key)[1:-1]} is not a label that Pillion knows",
                f"its only label is {MANAGED_LABEL}",
                "move it to the annotations" if key in BY_KEY else "remove it",
            )  # fmt: skip
            yield _at(step, key, problem)
        elif value != MANAGED_VALUE:
            problem = Problem(
                "label-value", f"{MANAGED_LABEL} is {_written(value)}", f'it is "{MANAGED_VALUE}", as text, or absent',
                f'write "{MANAGED_VALUE}", in quotes',
            )  # fmt: skip
            yield _at(step, key, problem)


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else echo(value)


def _inherited(manifest: Manifest, unmanaged: dict[tuple[int, tuple[str | int, ...]], list[Step]]) -> Iterator[Finding]:
    """Report a workflow's label once, with the templates that it reaches and that say no policy."""
    for step in reversed(manifest.steps):
        if not step.shared or MANAGED_LABEL not in step.labels:
            continue
        reached = unmanaged.pop((id(step.document), step.root), None)
        if reached:
            named = ", ".join(other.where for other in reached[:_MAX_NAMED])
            more = f" and {len(reached) - _MAX_NAMED} more" if len(reached) > _MAX_NAMED else ""
            yield _at(step, MANAGED_LABEL, _without_policy(f"reaches {named}{more}, which say no policy"))


def _without_policy(how: str) -> Problem:
    return Problem(
        "label-without-policy", f"{MANAGED_LABEL} {how}",
        "a managed pod says its share, or its memory if it is low", "add the annotations, or remove the label",
    )  # fmt: skip


def _at(step: Step, label: str, problem: Problem) -> Finding:
    path = (*step.metadata_path, "labels", label) if label else step.metadata_path
    return found(step.metadata_document or step.document, path, problem.at(step.where))
