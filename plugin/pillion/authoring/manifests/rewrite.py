"""A policy as changes to a document: annotations, label, priority class and retries, in Argo's and Kubernetes' form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pillion.authoring.findings import Finding
from pillion.authoring.manifests.changes import Changes, put, remove
from pillion.authoring.manifests.document import Document, Path_
from pillion.authoring.manifests.intent import Intent, written
from pillion.authoring.manifests.steps import Step, at
from pillion.authoring.tags import retry_limit
from pillion.policy import (
    BY_KEY,
    MANAGED_LABEL,
    MANAGED_VALUE,
    PRIORITY_CLASS,
    Parameter,
    Problem,
    Tier,
    echo,
    is_parameter,
    write,
)

# A pod that was deleted to make room ends as Error, which OnFailure, Argo's default, does not retry.
_RETRY_ALWAYS = "Always"


@dataclass
class Revision:
    """What is to change in the documents that belong together.

    Attributes:
        changes: Per document, by its identity.
        platform: The platform document that a KFP pipeline does not have yet.
    """

    changes: dict[int, tuple[Document, Changes]] = field(default_factory=dict)
    platform: Changes = field(default_factory=dict)

    def of(self, document: Document | None) -> Changes:
        """Return the changes of a document, to add to; None is the platform document that is not there yet."""
        if document is None:
            return self.platform
        return self.changes.setdefault(id(document), (document, {}))[1]


def write_metadata(intent: Intent, revision: Revision, *, labelled: bool) -> None:
    """Add annotations and label of a policy; `labelled` says that the workflow labels its pods."""
    step = intent.step
    for document, path in intent.removals:
        remove(revision.of(document), path)
    if intent.inherits:
        return
    changes = revision.of(step.metadata_document)
    for key, text in policy_annotations(intent).items():
        if step.effective.get(key) != text:
            put(changes, (*step.metadata_path, "annotations", key), text)
    if not (labelled or intent.partial or MANAGED_LABEL in step.effective_labels):
        put(changes, (*step.metadata_path, "labels", MANAGED_LABEL), MANAGED_VALUE)


def policy_annotations(intent: Intent) -> dict[str, str]:
    """Return a policy's annotations in canonical spelling, with defaults only where somebody spelt them out."""
    step = intent.step
    said = step.annotations if step.shared else step.effective
    spelt = {key: written(intent.terms, term.field) for key, term in BY_KEY.items() if key in said}
    whole = {} if step.shared and intent.partial else write(intent.terms)
    return dict(sorted({**whole, **{key: text for key, text in spelt.items() if text is not None}}.items()))


def write_priority_class(intent: Intent, revision: Revision) -> Iterator[Finding]:
    """Add the tier's priority class; yield a warning where the author's own stays."""
    step, tier = intent.step, intent.terms.tier or Tier.NORMAL
    if intent.inherits or intent.partial or isinstance(tier, Parameter):
        return  # a tier that Argo fills in gets its class at admission
    path = _priority_class_path(step)
    own, right = at(step.document.data, path), PRIORITY_CLASS[tier]
    if own is None or own == "" or own in PRIORITY_CLASS.values():
        if own != right:
            put(revision.of(step.document), path, right)
    elif not is_parameter(str(own)):
        problem = Problem(
            "other-priority-class", f"the author's own priority class {echo(own)} stays",
            f"a {tier.value} step has {right}", "remove it; Pillion sets the tier's own", where=step.where,
        )  # fmt: skip
        yield step.document.finding(path, problem, warning=True)


def _priority_class_path(step: Step) -> Path_:
    if step.platform == "kubernetes":
        return (*step.path, "spec", "priorityClassName")
    if step.shared and step.path == step.root:
        return (*step.root, "podPriorityClassName")
    return (*step.path, "priorityClassName")


def write_retries(intent: Intent, revision: Revision) -> Iterator[Finding]:
    """Add retries that really happen; yield a warning where the author's own stay."""
    step, count = intent.step, retry_limit(intent.retries, intent.terms)
    if count is None or step.shared:
        return
    path = (*step.path, "retryStrategy")
    own = at(step.document.data, path)
    if step.platform == "kubernetes":
        if intent.retries is not None:
            yield _warning(
                step,
                step.path,
                f"retries={count} is left out",
                "a Job's backoffLimit says how often its pods are retried",
            )
    elif isinstance(own, Mapping):
        yield from _kept(intent, own, path, count)
    elif count and not (intent.retries is None and _always(_of_workflow(step))):
        put(revision.of(step.document), path, {"limit": str(count), "retryPolicy": _RETRY_ALWAYS})


def _kept(intent: Intent, own: Mapping[str, Any], path: Path_, count: int) -> Iterator[Finding]:
    step = intent.step
    if count and not _always(own):
        problem = Problem(
            "retry-policy", "the author's own retryStrategy stays, and does not retry every preempted step",
            "an evicted pod may end as Error (pod deleted), which only Always retries too",
            "write retryPolicy: Always, or remove the retryStrategy", where=step.where,
        )  # fmt: skip
        yield step.document.finding(path, problem, warning=True)
    elif intent.retries is not None and str(own.get("limit")) != str(count):
        yield _warning(step, path, f"retries={count} is left out", "the author's own retryStrategy stays")


def _always(strategy: Any) -> bool:
    """Whether Argo retries a step however it ended. Beside an expression it leaves the decision to that."""
    if not isinstance(strategy, Mapping) or str(strategy.get("limit")) == "0":
        return False
    policy = strategy.get("retryPolicy")
    return policy == _RETRY_ALWAYS or (policy is None and "expression" in strategy)


def _of_workflow(step: Step) -> Any:
    """Return the retryStrategy that holds for all templates of a workflow."""
    places = ((*step.root, "templateDefaults", "retryStrategy"), (*step.root, "retryStrategy"))
    return next((found for place in places if (found := at(step.document.data, place)) is not None), None)


def _warning(step: Step, path: Path_, what: str, allowed: str) -> Finding:
    return step.document.finding(path, Problem("own-retries", what, allowed, where=step.where), warning=True)
