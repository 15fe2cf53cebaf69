"""What a directive can be applied to in kfp, and what `defaults(...)` can."""

from __future__ import annotations

from typing import Any, NoReturn

from kfp.dsl.base_component import BaseComponent
from kfp.dsl.pipeline_channel import PipelineChannel
from kfp.dsl.pipeline_task import PipelineTask
from kfp.dsl.tasks_group import TasksGroup

from pillion.authoring.kfp import components, hooks, pipelines, steps
from pillion.authoring.tags import Directive, Tags
from pillion.policy import PolicyError, Problem, echo


def apply(target: Any, directive: Directive) -> Any:
    """Apply a directive to a component, giving a tagged copy, or to a task.

    Raises:
        PolicyError: The target is no step, or has one of these already.
    """
    pipelines.watch()
    if isinstance(target, BaseComponent):
        return components.tag_component(target, directive)
    if isinstance(target, PipelineTask):
        return steps.tag_task(target, directive)
    if isinstance(target, PipelineChannel):
        what, fix = f"the output {echo(target.name)}", "apply it to the task itself"
    elif isinstance(target, TasksGroup):
        what, fix = f"a dsl.{type(target).__name__}", "use `with pillion.defaults(...)` inside it"
    else:
        what, fix = f"{echo(target)} of type {type(target).__qualname__}", "apply it to the step that uses this"
    raise PolicyError(
        Problem("kfp-no-step", f"{directive.source} is applied to {what}", "it takes a component or a task", fix)
    )


def refuse_defaults(target: Any, defaults: Tags) -> NoReturn:
    """Refuse `@defaults(...)` above a decorator of kfp's.

    Raises:
        PolicyError: Always; it says what to do.
    """
    sources = " and ".join(each.source for each in (defaults.gpu_share, defaults.priority) if each is not None)
    if isinstance(target, BaseComponent) and target.component_spec.implementation.graph is not None:
        what = f'the pipeline "{target.name}", whose steps are compiled already'
        allowed, fix = "defaults stand around the steps while they are made", "put it below @dsl.pipeline"
    else:
        what = echo(target) if not isinstance(target, BaseComponent) else f'the component "{target.name}"'
        allowed, fix = "defaults hold for a pipeline's function or a block", "use gpu_share and priority for one step"
    raise PolicyError(Problem("defaults-target", f"defaults with {sources} are applied to {what}", allowed, fix))


def watch_tasks() -> None:
    """Let every task that is made get what the `defaults(...)` around it say."""
    pipelines.watch()
    hooks.wrap(BaseComponent, "__call__", _making_task)


def _making_task(original: Any, *args: Any, **kwargs: Any) -> Any:
    task = original(*args, **kwargs)
    steps.tag_from_defaults(task)
    return task
