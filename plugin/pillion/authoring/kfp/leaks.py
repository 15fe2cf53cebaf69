"""Policies on the wrong step of a compiled KFP pipeline.

A policy stands in the platform document, under a step's executor label, and its hash in the step's own container, in
the pipeline document. KFP mixes up labels when an outer pipeline and a nested one have components of the same name:
its merge writes the nested pipeline's settings under labels that it renames only later, and may rename two executors to
one label. The order in which it does so differs from run to run, so a pipeline that came out right once can come out
wrong the next time. Nothing here needs kfp: the two documents are plain data.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pillion.policy import HASH_ENV, Problem, examine, is_ours, policy_hash

_CAUSE = "KFP mixes up steps when an outer and a nested pipeline have components of the same name"
_RENAME = "give one of the two components another name"


class Leak(NamedTuple):
    """A step that does not have its own policy."""

    executor: str
    problem: Problem


def leaks(pipeline_spec: Mapping[str, Any], platform_spec: Mapping[str, Any] | None) -> list[Leak]:
    """Find the steps whose policy is not the one that their author gave them.

    Args:
        pipeline_spec: The pipeline document, or as much of it as `deploymentSpec` and `components`.
        platform_spec: The platform document, or None if there is none.

    Returns:
        One leak per executor at fault, in the documents' order. An executor whose annotations cannot be read is passed
        over: reading them says why.
    """
    executors = _mapping(pipeline_spec, "deploymentSpec", "executors")
    configs = _mapping(platform_spec, "platforms", "kubernetes", "deploymentSpec", "executors")
    found = []
    for label in dict.fromkeys((*executors, *configs)):
        hashed = _hash_in(executors.get(label))
        annotations = _mapping(configs.get(label), "podMetadata", "annotations")
        problem = _disagreement({key: value for key, value in annotations.items() if is_ours(key)}, hashed)
        if problem is not None:
            found.append(Leak(label, problem.at(f'executor "{label}"')))
    return found + _shared(_mapping(pipeline_spec, "components"), executors)


def hashes(executors: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the policy hash that each executor's container carries, or None, by executor label."""
    return {label: _hash_in(executor) for label, executor in executors.items() if _mapping(executor, "container")}


def _disagreement(annotations: Mapping[str, Any], hashed: str | None) -> Problem | None:
    if not annotations and hashed is None:
        return None
    if hashed is None:
        shown = ", ".join(f"{key}={value}" for key, value in annotations.items())
        return Problem(
            "kfp-policy-leak", f"it is annotated with {shown}, but its container knows nothing of a policy",
            f"a policy reaches a step through gpu_share and priority; {_CAUSE}",
            f"{_RENAME}; if you annotated the step by hand, use gpu_share and priority instead",
        )  # fmt: skip
    if not annotations:
        return Problem(
            "kfp-policy-leak", f"its container was compiled with a policy ({HASH_ENV}={hashed}) that is not annotated",
            f"a component that is loaded from a compiled file has lost its annotations; and {_CAUSE}",
            f"apply gpu_share and priority to the loaded component again, or {_RENAME}",
        )  # fmt: skip
    stated = _hash_of(tuple(sorted(annotations.items()))) if _are_texts(annotations.values()) else None
    if stated is None or stated == hashed:
        return None
    shown = ", ".join(f"{key}={value}" for key, value in annotations.items())
    return Problem(
        "kfp-policy-leak", f"it is annotated with another step's policy ({shown})", f"its own policy; {_CAUSE}", _RENAME
    )


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


@functools.lru_cache(maxsize=256)  # the steps of a pipeline have few different policies
def _hash_of(annotations: tuple[tuple[str, str], ...]) -> str | None:
    """Return the hash of the policy that annotations state, or None if they cannot be read."""
    terms, problems = examine(dict(annotations))
    return None if problems else policy_hash(terms)


def _shared(components: Mapping[str, Any], executors: Mapping[str, Any]) -> list[Leak]:
    """Find components that were put on one executor although they had policies of their own."""
    users: dict[str, list[str]] = {}
    for name, component in components.items():
        label = component.get("executorLabel") if isinstance(component, Mapping) else None
        if isinstance(label, str):
            users.setdefault(label, []).append(name)
    # Nobody runs the executors that the mix-up left over. If they have the policy of those in use, no harm is done.
    left_over = {hashed for label, hashed in hashes(executors).items() if label not in users}
    return [
        Leak(
            label,
            Problem(
                "kfp-shared-executor", f"{' and '.join(names)} share it, and a step's own policy is left over",
                f"one executor per step; {_CAUSE}", _RENAME, f'executor "{label}"',
            ),
        )
        for label, names in users.items()
        if len(names) > 1 and left_over - {_hash_in(executors.get(label))}
    ]  # fmt: skip


def _hash_in(executor: object) -> str | None:
    environment = _mapping(executor, "container").get("env")
    values = [
        variable.get("value")
        for variable in (environment if isinstance(environment, list) else ())
        if isinstance(variable, Mapping) and variable.get("name") == HASH_ENV
    ]
    return str(values[-1]) if values else None


def _mapping(data: object, *path: str) -> Mapping[str, Any]:
    for key in path:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data if isinstance(data, Mapping) else {}
