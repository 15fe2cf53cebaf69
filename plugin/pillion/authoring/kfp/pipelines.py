"""A whole pipeline: settle its steps before KFP compiles it, and look at what KFP made of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf import json_format
from kfp.compiler import pipeline_spec_builder
from kfp.dsl.graph_component import GraphComponent

from pillion.authoring.kfp import hooks, labels, reach, settling
from pillion.authoring.kfp.leaks import hashes, leaks
from pillion.policy import HASH_ENV, PolicyError, is_ours

_BUILD = "create_pipeline_spec"


def watch() -> None:
    """Let the policies of a pipeline's steps be written whenever KFP compiles one, by whichever way.

    `create_pipeline_spec` is where all of them meet: the pipeline's function has run, nothing is compiled yet.

    Raises:
        UnsupportedKfpError: This kfp compiles pipelines in another way.
    """
    if _BUILD not in inspect.unwrap(GraphComponent.__init__).__code__.co_names:
        raise hooks.UnsupportedKfpError(f"call of {_BUILD} in {GraphComponent.__qualname__}")
    hooks.wrap(pipeline_spec_builder, _BUILD, _building)


def verify(pipeline_spec: Any, platform_spec: Any) -> None:
    """Compare the policies of a compiled pipeline with the hashes that its steps carry.

    Args:
        pipeline_spec: The message of the pipeline document.
        platform_spec: The message of the platform document; may be empty.

    Raises:
        PolicyError: Some step has not its own policy.
    """
    found = leaks(
        {
            "deploymentSpec": {"executors": labels.environments_of(pipeline_spec)},
            "components": {
                name: {"executorLabel": component.executor_label}
                for name, component in pipeline_spec.components.items()
                if component.executor_label
            },
        },
        json_format.MessageToDict(platform_spec),
    )
    if found:
        raise PolicyError(*(leak.problem for leak in found))


def _building(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    pipeline, component_spec = hooks.arguments(original, args, kwargs, "pipeline", "component_spec")
    tasks = list(pipeline.tasks.values())
    problems = [problem for task in tasks for problem in settling.settle(task, pipeline.name)]
    if problems:
        raise PolicyError(*problems)
    concerned = any(map(_has_policy, tasks))
    if concerned:
        labels.separate(pipeline)
    pipeline_spec, platform_spec = original(*args, **kwargs)
    if concerned:
        verify(pipeline_spec, platform_spec)
    reach.remember(component_spec, ((task, settling.said_about(task)) for task in tasks))
    return pipeline_spec, platform_spec


def _has_policy(task: Any) -> bool:
    """Whether a task, or a step in it, has a policy, be it by hand or from a file."""
    if task.pipeline_spec is not None:
        executors = labels.environments_of(task.pipeline_spec)
        platform = json_format.MessageToDict(task.platform_spec).get("platforms", {}).get("kubernetes", {})
        configs = platform.get("deploymentSpec", {}).get("executors", {}).values()
        return any(hashes(executors).values()) or any(map(_is_annotated, configs))
    if task.container_spec is None:
        return False
    return HASH_ENV in (task.container_spec.env or ()) or _is_annotated(task.platform_config.get("kubernetes", {}))


def _is_annotated(config: Mapping[str, Any]) -> bool:
    return any(map(is_ours, config.get("podMetadata", {}).get("annotations", {})))
