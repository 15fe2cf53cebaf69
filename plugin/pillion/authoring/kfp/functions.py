"""Directives on the function below `@dsl.component`: whatever kfp makes from the function gets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kfp.dsl.container_component_class import ContainerComponent
from kfp.dsl.graph_component import GraphComponent
from kfp.dsl.python_component import PythonComponent

from pillion.authoring.kfp import components, hooks
from pillion.authoring.tags import function_tags
from pillion.policy import PolicyError, Problem


def watch() -> None:
    """Look at the function whenever a component or a pipeline is made from one.

    Raises:
        UnsupportedKfpError: This kfp makes them in another way.
    """
    hooks.wrap(PythonComponent, "__init__", _making_python_component)
    hooks.wrap(ContainerComponent, "__init__", _making_container_component)
    hooks.wrap(GraphComponent, "__init__", _making_pipeline)


def _making_python_component(original: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    component, function = hooks.arguments(original, args, kwargs, "self", "python_func")
    original(*args, **kwargs)
    components.tag_from_function(component, function)


def _making_container_component(original: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    component, function = hooks.arguments(original, args, kwargs, "self", "pipeline_func")
    original(*args, **kwargs)
    components.tag_from_function(component, function)


def _making_pipeline(original: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    (function,) = hooks.arguments(original, args, kwargs, "pipeline_func")
    tags = function_tags(function)
    if tags:
        sources = " and ".join(each.source for each in (tags.gpu_share, tags.priority) if each is not None)
        raise PolicyError(
            Problem(
                "kfp-pipeline", f"a pipeline's function carries {sources}", "a policy belongs to a step",
                "for all steps of the pipeline, put @pillion.defaults(...) there instead",
                f'pipeline "{getattr(function, "__name__", "")}"',
            )
        )  # fmt: skip
    original(*args, **kwargs)
