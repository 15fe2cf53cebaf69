"""A policy, written into a template in Argo's form: annotations, label, priority class, retries.

The author's own always stays: what agrees is merged, what differs is kept with a warning or, where both cannot be
meant, refused. A template is never changed in place, since it may be the author's object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hera.workflows import models

from pillion.authoring.hera.containers import container_problems, makes_pod, owns_whole_gpus
from pillion.authoring.hera.notices import warn
from pillion.authoring.hera.parameters import unknown_parameters
from pillion.authoring.tags import Directive, Tags, retry_limit
from pillion.policy import (
    MANAGED_LABEL,
    MANAGED_VALUE,
    PRIORITY_CLASS,
    TERMS,
    Parameter,
    PolicyError,
    Problem,
    Terms,
    Tier,
    examine,
    is_parameter,
    table,
    write,
)

# A pod that was deleted to make room ends as Error, which OnFailure, Argo's default, does not retry.
_RETRY_ALWAYS = "Always"


class WorkflowWide(NamedTuple):
    """What the fields of a workflow, `podMetadata`, `templateDefaults` and `retryStrategy`, give to all its templates.

    Attributes:
        tags: What their annotations say, farther than any default.
        inputs: The names of the input parameters.
        retry_strategy: How every step is retried.
    """

    tags: Tags
    inputs: tuple[str, ...]
    retry_strategy: models.RetryStrategy | None


class Said(NamedTuple):
    """What holds for a template.

    Attributes:
        own: What was said about it.
        defaults: What holds where it says nothing. Several where its calls stand in different `defaults` blocks.
        workflow_wide: What the workflow's own fields give to all of its templates.
    """

    own: Tags
    defaults: frozenset[Tags]
    workflow_wide: WorkflowWide


def with_policy(template: models.Template, said: Said, where: str) -> models.Template:
    """Return `template` with the policy that holds for it; the same object if there is none, or no pod of its own.

    Args:
        template: In Argo's form, as Hera built it.
        said: What was said about it and around it.
        where: How messages call it.

    Raises:
        PolicyError: The policy cannot be meant as it stands.
    """
    if not makes_pod(template):
        return template
    try:
        tags = _holding(template, said)
        return _written(template, tags, said.workflow_wide, where) if tags else template
    except PolicyError as error:
        raise error.at(where) from None


def said_by_hand(metadata: models.Metadata | None) -> Tags:
    """Return what annotations say already, as if it had been said by directives.

    Raises:
        PolicyError: They cannot be read.
    """
    terms, problems = examine(_annotations(metadata), parameters=True)
    if problems:
        raise PolicyError(*problems)
    tags = Tags()
    for name in Tags._fields:
        fields = {term.field for term in TERMS if term.argument.startswith(f"{name}(")}
        part = Terms(**{field: getattr(terms, field) for field in fields})
        if part != Terms():
            tags = tags.adding(Directive(name, part, "its annotations"))
    return tags


def parameters_of(template: models.Template | None) -> tuple[str, ...]:
    """Return the names of a template's input parameters."""
    inputs = template.inputs if template is not None else None
    return tuple(parameter.name for parameter in (inputs.parameters if inputs else None) or ())


def _holding(template: models.Template, said: Said) -> Tags:
    """Return the one policy that holds for a template; nothing if none does, or if annotations by hand say it all."""
    by_hand = said_by_hand(template.metadata)
    own, farthest = said.own.over(by_hand), said.workflow_wide.tags
    possible = {_with_defaults(template, own, defaults, farthest) for defaults in said.defaults}
    if len(possible) > 1:
        words = sorted({directive.source for tags in possible for directive in tags if directive})
        raise PolicyError(
            Problem(
                "calls-differ",
                f"its calls stand in blocks of different defaults: {', '.join(words) or 'none'}",
                "Argo knows no policy of one call: all calls of a template share its policy",
                "apply gpu_share and priority to the template, or move its calls into one block",
            )
        )
    (tags,) = possible
    return tags if tags != by_hand.over(farthest) else Tags()


def _with_defaults(template: models.Template, own: Tags, defaults: Tags, farthest: Tags) -> Tags:
    if own.gpu_share is None and owns_whole_gpus(template):
        defaults = Tags()  # it has said what it needs of a GPU: all of it
    tags = own.over(defaults).over(farthest)
    # A default of nothing but a priority is for steps that share a GPU.
    return tags if tags.gpu_share or own.priority else Tags()


def _written(template: models.Template, tags: Tags, wide: WorkflowWide, where: str) -> models.Template:
    terms = tags.terms()
    problems = [
        *container_problems(template, terms),
        *unknown_parameters(terms, [*parameters_of(template), *wide.inputs]),
        *_conflicts(template.metadata, terms),
    ]
    if problems:
        raise PolicyError(*problems)
    own, labels = _annotations(template.metadata), (template.metadata and template.metadata.labels) or {}
    changes: dict[str, Any] = {
        "metadata": models.Metadata(
            annotations={**own, **_respelt(own, terms), **write(terms)}, labels={**labels, MANAGED_LABEL: MANAGED_VALUE}
        ),
        **_priority_class(template, tags, terms, where),
        **_retries(template, tags, wide, where),
    }
    return template.model_copy(update=changes)


def _respelt(own: Mapping[str, str], terms: Terms) -> dict[str, str]:
    """Return the template's own policy annotations in the one spelling; those that say a default stay."""
    values = {term: getattr(terms, term.field) for term in TERMS if term.key in own}
    return {
        term.key: value.text if isinstance(value, Parameter) else term.write(value) for term, value in values.items()
    }


def _annotations(metadata: models.Metadata | None) -> Mapping[str, str]:
    return (metadata and metadata.annotations) or {}


def _conflicts(metadata: models.Metadata | None, terms: Terms) -> Iterator[Problem]:
    """Yield where the template's own annotations and labels say otherwise."""
    own, written = _annotations(metadata), write(terms)
    by_hand, _ = examine(own, parameters=True)
    for term in TERMS:
        mine = getattr(by_hand, term.field)
        if mine is not None and mine != getattr(terms, term.field):
            decorated = f'"{written[term.key]}"' if term.key in written else "nothing of it"
            yield Problem(
                "annotation-differs", f'its annotation {term.key} is "{own[term.key]}", its decorators say {decorated}',
                "a policy is said in one place", "remove the annotation, or say it with the decorators only",
                key=term.key,
            )  # fmt: skip
    label = ((metadata and metadata.labels) or {}).get(MANAGED_LABEL, MANAGED_VALUE)
    if label != MANAGED_VALUE:
        yield Problem(
            "label-value", f'its label {MANAGED_LABEL} is "{label}"', f'a step with a policy says "{MANAGED_VALUE}"',
            "remove the label, or the policy", key=MANAGED_LABEL,
        )  # fmt: skip


def _priority_class(template: models.Template, tags: Tags, terms: Terms, where: str) -> Mapping[str, Any]:
    tier = terms.tier if terms.tier is not None else table.DEFAULT_TIER
    if not isinstance(tier, Tier):
        return {}  # known at run time: set at admission
    own, right = template.priority_class_name, PRIORITY_CLASS[tier]
    if not own and not tags.priority_class:
        return {}
    if not own or own in PRIORITY_CLASS.values():
        return {"priority_class_name": right}
    if not is_parameter(own):
        warn(f'{where} keeps its own priority_class_name "{own}"; that of a {tier.value} step is "{right}"')
    return {}


def _retries(template: models.Template, tags: Tags, wide: WorkflowWide, where: str) -> Mapping[str, Any]:
    limit = retry_limit(tags.retries, tags.terms())
    own = template.retry_strategy
    if own is None:
        if not limit or (tags.retries is None and _retries_always(wide.retry_strategy)):
            return {}
        strategy = models.RetryStrategy(limit=models.IntOrString(root=str(limit)), retry_policy=_RETRY_ALWAYS)
        return {"retry_strategy": strategy}
    if limit and not _retries_always(own):
        warn(
            f"{where} keeps its own retry_strategy, which does not retry every preempted step: "
            'set retry_policy="Always", or remove it to get one that does'
        )
    elif tags.retries is not None and _limit(own) != str(tags.retries):
        warn(f"{where} keeps its own retry_strategy; the retries={tags.retries} of its priority is left out")
    return {}


def _retries_always(strategy: models.RetryStrategy | None) -> bool:
    """Whether Argo retries a step however it ended. Beside an expression it leaves the decision to that."""
    if strategy is None or _limit(strategy) == "0":
        return False
    return strategy.retry_policy == _RETRY_ALWAYS or (strategy.retry_policy is None and strategy.expression is not None)


def _limit(strategy: models.RetryStrategy) -> str | None:
    return str(strategy.limit.root) if strategy.limit is not None else None
