"""Writing a policy into a task, for KFP to compile.

It happens after the pipeline's function has run: until then the author may say more, be it another directive, a retry,
an accelerator or an annotation. So the order in which things are said does not matter.
"""

from __future__ import annotations

import warnings
from typing import Any

from kfp.dsl.component_task_config import TaskConfigField
from kfp.dsl.structures import convert_duration_to_seconds

from pillion.authoring.kfp.accelerators import owns_gpus
from pillion.authoring.kfp.steps import Step, step_of
from pillion.authoring.tags import Tags, retry_limit
from pillion.policy import (
    HASH_ENV,
    MANAGED_LABEL,
    MANAGED_VALUE,
    PolicyError,
    PolicyWarning,
    Problem,
    echo,
    is_ours,
    policy_hash,
    write,
)

# Argo counts this from the first attempt: with KFP's default of an hour, a step preempted later would not be retried.
BACKOFF_MAX_DURATION = "604800s"
_KFP_BACKOFF_MAX_DURATION = "3600s"


def settle(task: Any, pipeline_name: str) -> list[Problem]:
    """Write what was said about a task into it.

    Returns:
        Why that cannot be: a required term was never said, or the author's own settings contradict the policy.
    """
    _mend_environment(task)
    step, said = step_of(task), said_about(task)
    if not said:
        return []
    where = f'task "{task.name}" of pipeline "{pipeline_name}" ({step.file}:{step.line})'
    try:
        terms = said.terms()
    except PolicyError as error:
        return [problem.at(where) for problem in error.problems]
    annotations = write(terms)
    problems = [*_conflicts(task, annotations), *_whole_gpus(task), *environment_problems(task.component_spec)]
    if not problems:
        _annotate(task, annotations)
        task.container_spec.env = {**(task.container_spec.env or {}), HASH_ENV: policy_hash(terms)}
        _retry(task, said, where, step)
    return [problem.at(where) for problem in problems]


def said_about(task: Any) -> Tags:
    """Return what holds for a task; empty if it shares no GPU."""
    step = step_of(task)
    # A default leaves alone who has said what it needs of a GPU: all of it.
    whole = step.own.gpu_share is None and owns_gpus(task)
    said = step.own if whole else step.own.over(step.defaults)
    return said if step.own or said.gpu_share else Tags()


def environment_problems(component_spec: Any) -> list[Problem]:
    """Return why the hash of a policy would not reach a component's own pod; nothing if it does."""
    passthroughs = component_spec.task_config_passthroughs
    if not passthroughs or any(each.field is TaskConfigField.ENV and each.apply_to_task for each in passthroughs):
        return []
    return [
        Problem(
            "kfp-passthrough", "its component hands its environment on to another workload (task_config_passthroughs)",
            "the step's own pod must keep its environment, by which its policy is recognised",
            "add TaskConfigPassthrough(field=TaskConfigField.ENV, apply_to_task=True)",
        )
    ]  # fmt: skip


def pod_metadata(annotations: dict[str, str], existing: dict[str, Any]) -> dict[str, Any]:
    """Return a `podMetadata` with a policy's annotations and label, and what is there of others."""
    others = {key: value for key, value in existing.get("annotations", {}).items() if not is_ours(key)}
    return {
        **existing,
        "annotations": {**others, **annotations},
        "labels": {**existing.get("labels", {}), MANAGED_LABEL: MANAGED_VALUE},
    }


def _mend_environment(task: Any) -> None:
    """Turn the environment of a component that was compiled with a policy and loaded again into the mapping it must be.

    kfp loads it as the list that stands in the file, and fails on it when it compiles the task.
    """
    if task.container_spec is not None and isinstance(task.container_spec.env, list):
        variables = {each["name"]: each.get("value", "") for each in task.container_spec.env}
        if HASH_ENV in variables:
            task.container_spec.env = variables


def _metadata_of(task: Any) -> dict[str, Any]:
    return dict(task.platform_config.get("kubernetes", {}).get("podMetadata", {}))


def _annotate(task: Any, annotations: dict[str, str]) -> None:
    # kfp.kubernetes functions would do the same, but parse and write the whole of the settings for each annotation.
    metadata = pod_metadata(annotations, _metadata_of(task))
    task.platform_config["kubernetes"] = {**task.platform_config.get("kubernetes", {}), "podMetadata": metadata}


def _conflicts(task: Any, annotations: dict[str, str]) -> list[Problem]:
    ours = {**annotations, MANAGED_LABEL: MANAGED_VALUE}
    metadata = _metadata_of(task)
    by_hand = {**metadata.get("annotations", {}), **metadata.get("labels", {})}
    return [
        Problem(
            "annotation-differs", f"{key} is set to {echo(value)} by hand",
            f"the step's gpu_share and priority say {echo(ours[key]) if key in ours else 'nothing of the kind'}",
            "say it in gpu_share or priority only", key=key,
        )
        for key, value in by_hand.items()
        if is_ours(key) and ours.get(key) != value
    ]  # fmt: skip


def _whole_gpus(task: Any) -> list[Problem]:
    if not owns_gpus(task):
        return []
    kind = task.container_spec.resources.accelerator_type
    return [
        Problem(
            "whole-gpu", f"it asks for {echo(kind) if kind is not None else 'accelerators'} and for a share of a GPU",
            "a step shares one GPU or owns whole ones",
            "remove set_accelerator_type and set_accelerator_limit, or gpu_share",
        )
    ]  # fmt: skip


def _retry(task: Any, said: Tags, where: str, step: Step) -> None:
    count = retry_limit(said.retries, said.terms())
    if count is None:
        return
    own = task._task_spec.retry_policy  # noqa: SLF001 - a task tells nobody else whether it has one
    if own is None:
        if count:
            task.set_retry(count, backoff_max_duration=BACKOFF_MAX_DURATION)
        return
    lasts_s = convert_duration_to_seconds(own.backoff_max_duration or _KFP_BACKOFF_MAX_DURATION)
    if said.retries is None and lasts_s >= convert_duration_to_seconds(BACKOFF_MAX_DURATION):
        return
    message = (
        f"{where}: the author's own set_retry({own.max_retry_count}) stays, and stops {lasts_s} s after the first "
        f"attempt; Pillion would set {count} retries with backoff_max_duration {BACKOFF_MAX_DURATION}, so that a step "
        "is also tried again when it is preempted late"
    )
    warnings.warn_explicit(message, PolicyWarning, step.file, step.line)
