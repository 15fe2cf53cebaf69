"""Which steps of a nested pipeline `defaults(...)` around it would have to reach, and cannot.

A nested pipeline was compiled when it was defined. What its steps had left unsaid then is remembered on it, so that a
default that comes too late is refused and not lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from google.protobuf import json_format

from pillion.authoring.kfp.accelerators import executor_owns_gpus, owns_gpus
from pillion.authoring.kfp.leaks import hashes
from pillion.authoring.tags import ATTRIBUTE, Tags
from pillion.policy import PolicyError, Problem


class Unsaid(NamedTuple):
    """Names of the steps of a compiled pipeline, nested ones included, that a default would complete."""

    without_share: tuple[str, ...] = ()
    without_priority: tuple[str, ...] = ()


def remember(component_spec: Any, tasks: Iterable[tuple[Any, Tags]]) -> None:
    """Remember on a pipeline that has just been compiled what its tasks had left unsaid.

    Args:
        component_spec: The pipeline's, by which it is found again when it is nested.
        tasks: Its tasks with what was said about them.
    """
    without_share: list[str] = []
    without_priority: list[str] = []
    for task, said in tasks:
        if task.pipeline_spec is not None:
            nested = _unsaid(task)
            without_share += (f"{task.name}/{name}" for name in nested.without_share)
            without_priority += (f"{task.name}/{name}" for name in nested.without_priority)
        elif task.container_spec is not None and not said and not owns_gpus(task):
            without_share.append(task.name)
        elif said and said.priority is None:
            without_priority.append(task.name)
    setattr(component_spec, ATTRIBUTE, Unsaid(tuple(without_share), tuple(without_priority)))


def refuse_beyond(task: Any, defaults: Tags) -> None:
    """Refuse defaults around a nested pipeline that leave out some of its steps.

    Raises:
        PolicyError: There are such steps.
    """
    unsaid = _unsaid(task)
    steps = (
        *(unsaid.without_share if defaults.gpu_share else ()),
        *(unsaid.without_priority if defaults.priority else ()),
    )
    if not steps:
        return
    directives = " and ".join(each.source for each in (defaults.gpu_share, defaults.priority) if each is not None)
    raise PolicyError(
        Problem(
            "defaults-nested", f"defaults with {directives} surround a nested pipeline, which is compiled already",
            f"they would have to reach {', '.join(steps)}",
            "put @pillion.defaults(...) below the nested pipeline's own @dsl.pipeline, or call it outside the block",
            f'pipeline "{task.component_spec.name}"',
        )
    )  # fmt: skip


def _unsaid(task: Any) -> Unsaid:
    remembered = vars(task.component_spec).get(ATTRIBUTE)
    if isinstance(remembered, Unsaid):
        return remembered
    # Loaded from a file, or compiled before Pillion was used: whoever has a policy there has all of it.
    executors = json_format.MessageToDict(task.pipeline_spec.deployment_spec).get("executors", {})
    without_share = [
        label.removeprefix("exec-")
        for label, hashed in hashes(executors).items()
        if hashed is None and not executor_owns_gpus(executors[label])
    ]
    return Unsaid(tuple(without_share))
