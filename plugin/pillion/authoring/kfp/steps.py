"""One task of a pipeline, and what was said about it. `settling` writes that when the pipeline is compiled."""

from __future__ import annotations

import inspect
from types import FrameType
from typing import Any, NamedTuple

from kfp.dsl.pipeline_context import Pipeline
from kfp.dsl.pipeline_task import TaskState

from pillion.authoring.decorators import current_defaults
from pillion.authoring.kfp import reach
from pillion.authoring.tags import ATTRIBUTE, Directive, Tags
from pillion.policy import PolicyError, Problem, echo

_CONTAINER = "main"  # what KFP calls the only container of a step that is the author's


class Step(NamedTuple):
    """What is known of a task until its pipeline is compiled.

    Attributes:
        task: What was said about this very task.
        component: What was said about its component.
        defaults: What the `defaults(...)` around it say.
        file: Where something was first said about it, most often by making it.
        line: Likewise.
    """

    task: Tags = Tags()
    component: Tags = Tags()
    defaults: Tags = Tags()
    file: str = ""
    line: int = 0

    @property
    def own(self) -> Tags:
        """What the task and its component say."""
        return self.task.over(self.component)


def check(directive: Directive) -> None:
    """Refuse what is possible elsewhere, but not in KFP.

    Raises:
        PolicyError: A value is a run-time parameter, or the container is another than the step's own.
    """
    problems = []
    if directive.terms.has_parameters:
        problems.append(
            Problem(
                "kfp-parameter", f"{directive.source} takes a value from a run-time parameter",
                "no KFP run-time value reaches an annotation: it must be known when compiling",
                "use a constant, or one task per value under dsl.If",
            )
        )  # fmt: skip
    elif directive.terms.container not in (None, _CONTAINER):
        problems.append(
            Problem(
                "kfp-container", f"{directive.source} names the container {echo(directive.terms.container)}",
                f'the container of a KFP step is called "{_CONTAINER}"', "leave container= out",
            )
        )  # fmt: skip
    if problems:
        raise PolicyError(*problems)


def refuse_without_pod(component_spec: Any, source: str) -> None:
    """Refuse a directive on what runs no container of the author's.

    Args:
        component_spec: What the component or task is made from.
        source: The directive, as it was written.

    Raises:
        PolicyError: It is an importer or a pipeline.
    """
    where = f'component "{component_spec.name}"'
    if component_spec.implementation.importer is not None:
        raise PolicyError(
            Problem(
                "kfp-importer", f"{source} is applied to an importer", "an importer runs no container and needs no GPU",
                "remove it", where,
            )
        )  # fmt: skip
    if component_spec.implementation.graph is not None:
        raise PolicyError(
            Problem(
                "kfp-pipeline", f"{source} is applied to a pipeline", "a policy belongs to a step",
                "for all steps of the pipeline, put @pillion.defaults(...) below its @dsl.pipeline", where,
            )
        )  # fmt: skip


def tag_task(task: Any, directive: Directive) -> Any:
    """Say something about one task. A task that has run locally is left alone: there is no pod to annotate.

    Raises:
        PolicyError: It runs no container, has a directive of this kind, or its pipeline has been compiled already.
    """
    refuse_without_pod(task.component_spec, directive.source)
    check(directive)
    if task.state is TaskState.FINAL:
        return task
    pipeline = Pipeline.get_default_pipeline()
    if pipeline is None or pipeline.tasks.get(task.name) is not task:
        raise PolicyError(
            Problem(
                "kfp-too-late", f"{directive.source} is applied after the task's pipeline was compiled",
                "a task gets its policy in its pipeline's function", "move the call there", f'task "{task.name}"',
            )
        )  # fmt: skip
    step = step_of(task)
    _keep(task, step._replace(task=step.task.adding(directive)))
    return task


def tag_from_component(task: Any, tags: Tags) -> None:
    """Hand a component's tags to a task that was made from it."""
    if task.state is not TaskState.FINAL:
        _keep(task, step_of(task)._replace(component=tags))


def tag_from_defaults(task: Any) -> None:
    """Hand the surrounding `defaults(...)` to a task that has just been made.

    Raises:
        PolicyError: The task is a nested pipeline with steps that they would have to reach.
    """
    defaults = current_defaults()
    if not defaults or task.state is TaskState.FINAL or task.importer_spec is not None:
        return
    if task.pipeline_spec is not None:
        reach.refuse_beyond(task, defaults)
        return
    for directive in (defaults.gpu_share, defaults.priority):
        if directive is not None:
            check(directive)
    _keep(task, step_of(task)._replace(defaults=defaults))


def step_of(task: Any) -> Step:
    """Return what is known of a task."""
    step = vars(task).get(ATTRIBUTE)
    return step if isinstance(step, Step) else Step()


def _keep(task: Any, step: Step) -> None:
    setattr(task, ATTRIBUTE, step if step.file else step._replace(**_author()))


def _author() -> dict[str, Any]:
    """Return the file and line outside Pillion and kfp that led here."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("pillion", "kfp"):
        frame = frame.f_back
    return {"file": frame.f_code.co_filename, "line": frame.f_lineno} if frame is not None else {}
