"""A policy, written into a template in Argo's form: annotations, label, priority class, retries.

The author's own always stays: what agrees is merged, what differs is kept with a warning or, where both cannot be
meant, refused. A template is never changed in place, since it may be the author's object.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hera.workflows import models

from pillion.authoring.hera.parameters import unknown_parameters
from pillion.authoring.tags import DEFAULT_RETRIES, Directive, Tags
from pillion.policy import (
    BY_FIELD,
    MANAGED_LABEL,
    MANAGED_VALUE,
    PRIORITY_CLASS,
    TERMS,
    PolicyError,
    PolicyWarning,
    Problem,
    Terms,
    Tier,
    examine,
    table,
    write,
)

_MAIN = "main"
_WHOLE_GPU = "nvidia.com/gpu"
# A pod that was deleted to make room ends as Error, which OnFailure, the default, does not retry.
_RETRY_ALWAYS = "Always"


class Said(NamedTuple):
    """What holds for a template.

    Attributes:
        own: What was said about it.
        defaults: What holds where it says nothing. Several where its calls stand in different `defaults` blocks.
    """

    own: Tags
    defaults: frozenset[Tags]


def with_policy(template: models.Template, said: Said, where: str) -> models.Template:
    """Return `template` with the policy that holds for it; the same object if there is none.

    Args:
        template: In Argo's form, as Hera built it.
        said: What was said about it and around it.
        where: How messages call it.

    Raises:
        PolicyError: The policy cannot be meant as it stands.
    """
    if not makes_pod(template) or not (said.own or any(said.defaults)):
        return template
    try:
        tags = _holding(template, said)
        return _written(template, tags, where) if tags else template
    except PolicyError as error:
        raise error.at(where) from None


def makes_pod(template: models.Template) -> bool:
    """Whether containers of the author's own run in a pod of the template's own."""
    return any(part is not None for part in (template.container, template.script, template.container_set))


def _holding(template: models.Template, said: Said) -> Tags:
    """Return the one policy that holds for a template; nothing if none does, or if its annotations say it all."""
    by_hand = _said_by_hand(template)
    own = said.own.over(by_hand)
    possible = {_with_defaults(template, own, defaults) for defaults in said.defaults}
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
    return tags if tags != by_hand else Tags()


def _with_defaults(template: models.Template, own: Tags, defaults: Tags) -> Tags:
    if own.gpu_share is None and any(_whole_gpus(template)):
        defaults = Tags()  # it has said what it needs of a GPU: all of it
    tags = own.over(defaults)
    # A default of nothing but a priority is for steps that share a GPU.
    return tags if tags.gpu_share or own.priority else Tags()


def _said_by_hand(template: models.Template) -> Tags:
    """Return what the template's annotations say already, as if it had been said by directives."""
    terms, problems = examine(_annotations(template), parameters=True)
    if problems:
        raise PolicyError(*problems)
    tags = Tags()
    for name in Tags._fields:
        fields = {term.field for term in TERMS if term.argument.startswith(f"{name}(")}
        part = Terms(**{field: getattr(terms, field) for field in fields})
        if part != Terms():
            tags = tags.adding(Directive(name, part, "its annotations"))
    return tags


def _written(template: models.Template, tags: Tags, where: str) -> models.Template:
    terms = tags.terms()
    problems = [
        *_container_problems(template, terms),
        *_whole_gpu_problems(template),
        *unknown_parameters(terms, [p.name for p in (template.inputs and template.inputs.parameters) or ()]),
        *_conflicts(template, terms),
    ]
    if problems:
        raise PolicyError(*problems)
    labels = (template.metadata and template.metadata.labels) or {}
    metadata = models.Metadata(
        annotations={**_annotations(template), **write(terms), **_annotations(template)},
        labels={**labels, MANAGED_LABEL: MANAGED_VALUE},
    )
    changes = {
        "metadata": metadata,
        **_priority_class(template, terms, where),
        **_retries(template, tags, terms, where),
    }
    return template.model_copy(update=changes)


def _annotations(template: models.Template) -> dict[str, str]:
    return dict((template.metadata and template.metadata.annotations) or {})


def _conflicts(template: models.Template, terms: Terms) -> Iterator[Problem]:
    """Yield where the template's own annotations and labels say otherwise."""
    by_hand, _ = examine(_annotations(template), parameters=True)
    for term in TERMS:
        mine, meant = getattr(by_hand, term.field), getattr(terms, term.field)
        if mine is not None and mine != meant:
            decorated = f'"{write(terms)[term.key]}"' if term.key in write(terms) else "nothing"
            yield Problem(
                "annotation-differs",
                f'its annotation {term.key} is "{_annotations(template)[term.key]}", its decorators say {decorated}',
                "a policy is said in one place", "remove the annotation, or say it with the decorators only",
                key=term.key,
            )  # fmt: skip
    label = ((template.metadata and template.metadata.labels) or {}).get(MANAGED_LABEL, MANAGED_VALUE)
    if label != MANAGED_VALUE:
        yield Problem(
            "annotation-differs", f'its own label {MANAGED_LABEL} is "{label}"',
            f'a step with a policy has it as "{MANAGED_VALUE}"', "remove the label, or the policy", key=MANAGED_LABEL,
        )  # fmt: skip


def _containers(template: models.Template) -> dict[str, Any]:
    """Return the containers of the template's pod by name; Argo calls that of a container or script `main`."""
    single = template.container or template.script
    main = [(_MAIN, single)] if single else [(node.name, node) for node in template.container_set.containers]
    others = [*(template.sidecars or ()), *(template.init_containers or ())]
    return dict([*main, *((container.name, container) for container in others)])


def _container_problems(template: models.Template, terms: Terms) -> Iterator[Problem]:
    name = terms.container if terms.container is not None else _MAIN
    containers = _containers(template)
    if isinstance(name, str) and name not in containers:
        said = (
            f'names the container "{name}"' if terms.container is not None else 'names no container, which means "main"'
        )
        yield Problem(
            "unknown-container", f"its gpu_share {said}", f"its containers are {', '.join(containers)}",
            "name the one that gets the GPU: gpu_share(..., container=)", key=BY_FIELD["container"].key,
        )  # fmt: skip


def _whole_gpus(template: models.Template) -> Iterator[str]:
    """Yield the names of the containers that ask for whole GPUs."""
    for name, container in _containers(template).items():
        resources = getattr(container, "resources", None)
        asked = [
            (part or {}).get(_WHOLE_GPU) for part in (resources and resources.limits, resources and resources.requests)
        ]
        if any(quantity is not None and str(quantity.root) != "0" for quantity in asked):
            yield name


def _whole_gpu_problems(template: models.Template) -> Iterator[Problem]:
    for name in _whole_gpus(template):
        yield Problem(
            "whole-gpu-and-share", f'its container "{name}" asks for whole GPUs ({_WHOLE_GPU})',
            "a step either shares a GPU or has whole ones", f"remove {_WHOLE_GPU} (gpus=), or the policy",
        )  # fmt: skip


def _priority_class(template: models.Template, terms: Terms, where: str) -> Mapping[str, Any]:
    tier = terms.tier if terms.tier is not None else table.DEFAULT_TIER
    if not isinstance(tier, Tier):
        return {}  # known at run time: set at admission
    name = PRIORITY_CLASS[tier]
    own = template.priority_class_name
    if own is not None and own != name:
        _warn(f'{where} keeps its own priority_class_name "{own}"; that of its tier is "{name}"')
    return {} if own is not None else {"priority_class_name": name}


def _retries(template: models.Template, tags: Tags, terms: Terms, where: str) -> Mapping[str, Any]:
    limit = tags.retries if tags.retries is not None else DEFAULT_RETRIES if terms.preemptible else 0
    own = template.retry_strategy
    if own is None:
        strategy = models.RetryStrategy(limit=models.IntOrString(root=str(limit)), retry_policy=_RETRY_ALWAYS)
        return {"retry_strategy": strategy} if limit else {}
    # An expression decides alone; without a policy beside it, it is asked about every end.
    always = own.retry_policy == _RETRY_ALWAYS or (own.retry_policy is None and own.expression is not None)
    if limit and not always:
        _warn(
            f'{where} keeps its own retry_strategy, which does not retry a preempted step: set retry_policy="Always", '
            "or remove it to get one that does"
        )
    elif tags.retries is not None:
        _warn(f"{where} keeps its own retry_strategy; the retries={tags.retries} of its priority is left out")
    return {}


def _warn(message: str) -> None:
    warnings.warn(message, PolicyWarning, stacklevel=2)
