"""Keep the executors of nested pipelines apart, so that KFP does not mix up their policies.

When KFP merges a nested pipeline whose executor labels occur in the outer one already, it renames them one by one and
merges in between (see `leaks`). With labels that occur nowhere else it has nothing to rename.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from kfp.compiler.compiler_utils import get_all_groups
from kfp.dsl.utils import make_name_unique_by_adding_index, sanitize_executor_label


def separate(pipeline: Any) -> None:
    """Give the executors of each nested pipeline in `pipeline` labels that no step before it has.

    They are the labels that KFP means to give. The nested pipelines stay as they are; their tasks get copies.
    """
    taken: set[str] = set()
    for task in _in_compiling_order(pipeline):
        if task.pipeline_spec is None:
            taken.add(make_name_unique_by_adding_index(sanitize_executor_label(task.name), list(taken), "-"))
            continue
        labels = set(executors_of(task.pipeline_spec))
        renamed: dict[str, str] = {}
        for label in sorted(labels & taken):
            others = [*taken, *labels, *renamed.values()]
            renamed[label] = make_name_unique_by_adding_index(label, others, "-")
        taken |= {renamed.get(label, label) for label in labels}
        if renamed:
            platform_spec = _renamed_platform(task.platform_spec, renamed)
            task.pipeline_spec = _renamed_pipeline(task.pipeline_spec, renamed)
            task.component_spec = copy.copy(task.component_spec)
            task.component_spec.platform_spec = platform_spec


def _in_compiling_order(pipeline: Any) -> list[Any]:
    """Return the tasks of a pipeline as KFP compiles them: group by group, the exit tasks, which no group has, last."""
    ordered = [task for group in get_all_groups(pipeline.groups[0]) for task in group.tasks]
    grouped = set(map(id, ordered))
    return ordered + [task for task in pipeline.tasks.values() if id(task) not in grouped]


def executors_of(pipeline_spec: Any) -> Mapping[str, Any]:
    """Return the executors of a pipeline message by label."""
    deployment = pipeline_spec.deployment_spec
    return deployment["executors"].fields if "executors" in deployment else {}


def environments_of(pipeline_spec: Any) -> dict[str, Any]:
    """Return the executors of a pipeline message as they stand in its document, with no more than their environments.

    Turning the whole message into plain data takes five times as long.
    """
    found: dict[str, Any] = {}
    for label, executor in executors_of(pipeline_spec).items():
        found[label] = {}
        if "container" in executor.struct_value:
            container = executor.struct_value["container"]
            variables = container["env"] if "env" in container else ()  # noqa: SIM401 - a message has no get()
            found[label]["container"] = {"env": [dict(variable) for variable in variables]}
    return found


def _renamed_pipeline(pipeline_spec: Any, renamed: Mapping[str, str]) -> Any:
    changed = copy.deepcopy(pipeline_spec)
    for component in changed.components.values():
        if component.executor_label in renamed:
            component.executor_label = renamed[component.executor_label]
    _rename(executors_of(changed), renamed)
    return changed


def _renamed_platform(platform_spec: Any, renamed: Mapping[str, str]) -> Any:
    changed = copy.deepcopy(platform_spec)
    for platform in changed.platforms.values():
        _rename(platform.deployment_spec.executors, renamed)
    return changed


def _rename(messages: Any, renamed: Mapping[str, str]) -> None:
    for old, new in renamed.items():
        if old in messages:
            messages[new].CopyFrom(messages[old])
            del messages[old]
