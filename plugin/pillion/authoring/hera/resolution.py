"""Whose word holds for each template of a workflow.

From near to far: what was said about the template (and about a script's function), its own annotations, the `defaults`
block that the template was made in, the block that its calls were made in, `defaults(...)(workflow)`, the block that
the workflow was made in, the block that it is built in, the annotations that the workflow has for all of its pods.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from hera.workflows import DAG, Parallel, RetryStrategy, Steps, Workflow, models
from hera.workflows.protocol import Templatable

from pillion.authoring.decorators import current_defaults
from pillion.authoring.hera.notices import warn
from pillion.authoring.hera.records import recorded, said_about, surroundings
from pillion.authoring.hera.writing import Said, WorkflowWide, parameters_of, said_by_hand, with_policy
from pillion.authoring.tags import Tags
from pillion.policy import PolicyError, Problem


def with_policies(
    workflow: Workflow, built: Sequence[models.Template], hooked: Mapping[int, Any]
) -> list[models.Template]:
    """Return a workflow's templates with the policies that hold for them.

    Args:
        workflow: The workflow.
        built: Its templates in Argo's form, in the order of `workflow.templates`.
        hooked: What the author's pre-build hooks made of a template, by the id of the template.

    Raises:
        PolicyError: A policy cannot be meant as it stands, or would be lost.
    """
    templates = [hooked.get(id(template), template) for template in workflow.templates]
    resolution = _Resolution(workflow, templates)
    return [resolution.applied(template, form) for template, form in zip(templates, built, strict=True)]


class _Resolution:
    def __init__(self, workflow: Workflow, templates: Sequence[Any]) -> None:
        self._around = surroundings(workflow)
        self._defaults = recorded(workflow).over(self._around).over(current_defaults())
        self._workflow = workflow
        self._by_name = {template.name: template for template in workflow.templates}
        self._calls: defaultdict[str, list[Any]] = defaultdict(list)
        for caller in templates:
            for call in _calls_below(caller):
                self._check(caller, call)
                self._calls[_name(call)].append(call)
        if workflow.workflow_template_ref is not None:
            self._check_reference(workflow)

    def applied(self, template: Any, form: models.Template, *, where: str = "", call: Any = None) -> models.Template:
        """Return a template's form with its policy, and with those of the templates that stand inline in its calls."""
        calls = [call] if call is not None else self._calls.get(template.name, [])
        made = self._inner(template)
        defaults = {made.over(self._inner(call)).over(self._defaults) for call in calls}
        defaults = defaults or {made.over(self._defaults)}
        form = self._with_inlines(template, form)
        if not (_own(template) or any(defaults)):
            return form
        said = Said(_own(template), frozenset(defaults), self._workflow_wide)
        return with_policy(form, said, where or f'template "{template.name}"')

    @cached_property
    def _workflow_wide(self) -> WorkflowWide:
        template = self._workflow.template_defaults
        own = self._workflow.retry_strategy
        retry_strategy = (template and template.retry_strategy) or (
            own.build() if isinstance(own, RetryStrategy) else own
        )
        # Argo lays the metadata of templateDefaults over podMetadata.
        tags = said_by_hand(template and template.metadata).over(said_by_hand(self._workflow.pod_metadata))
        return WorkflowWide(tags, parameters_of(template), retry_strategy)

    def _inner(self, made: Any) -> Tags:
        """Return the defaults that a template or call was made in, beyond those around the whole workflow."""
        return Tags(*(mine if mine != outer else None for mine, outer in zip(_around(made), self._around, strict=True)))

    def _with_inlines(self, template: Any, form: models.Template) -> models.Template:
        def with_inline(call: Any, built: Any) -> Any:
            if built.inline is None:
                return built
            where = f'inline template "{call.name}" of "{template.name}"'
            return built.model_copy(update={"inline": self.applied(call.inline, built.inline, where=where, call=call)})

        calls = _calls(template)
        if not any(call.inline is not None for call in calls):
            return form
        if form.dag is not None:
            tasks = [with_inline(call, task) for call, task in zip(calls, form.dag.tasks, strict=True)]
            return form.model_copy(update={"dag": form.dag.model_copy(update={"tasks": tasks})})
        rest = iter(calls)
        steps = [
            models.ParallelSteps(root=[with_inline(next(rest), step) for step in group.root]) for group in form.steps
        ]
        return form.model_copy(update={"steps": steps})

    def _check(self, caller: Any, call: Any) -> None:
        """See that nothing said about or around a call is lost."""
        where = f'call "{call.name}" in template "{caller.name}"'
        defaults = self._inner(call)
        if call.template_ref is not None:
            if defaults.over(self._defaults):
                reference = f'"{call.template_ref.template}" of "{call.template_ref.name}"'
                warn(f"{where}: defaults do not reach the template {reference}; apply them where it is defined")
            return
        entry = self._by_name.get(_name(call))
        if entry is None:
            return
        if isinstance(call.template, Templatable) and _own(call.template) not in (Tags(), _own(entry)):
            raise PolicyError(_lost(call.template, _own(call.template), _own(entry)).at(where))
        if _calls(entry) and any(mine and mine not in _around(entry) for mine in defaults):
            raise PolicyError(
                Problem(
                    "defaults-out-of-reach",
                    f'defaults stand around the call of "{entry.name}", not around what it calls',
                    "a block reaches the templates and calls that are made in it",
                    f'make the calls of "{entry.name}" in the block, or apply the defaults to the workflow',
                    where=where,
                )
            )

    def _check_reference(self, workflow: Workflow) -> None:
        name = workflow.workflow_template_ref.name
        message = f'defaults do not reach the workflow template "{name}", which this workflow only refers to'
        if recorded(workflow):
            raise PolicyError(
                Problem(
                    "defaults-out-of-reach",
                    message,
                    "defaults reach the templates of the workflow itself",
                    f'apply them to "{name}"',
                    where=f'workflow "{workflow.name or workflow.generate_name}"',
                )
            )
        if self._defaults:
            warn(f"{message}; apply them there")


def _lost(template: Any, said: Tags, kept: Tags) -> Problem:
    words = [" and ".join(d.source for d in tags if d) or "nothing" for tags in (said, kept)]
    return Problem(
        "policy-lost",
        f'its template "{template.name}" says {words[0]}, but the one of this name in the workflow says {words[1]}',
        "Hera copies a template into the workflow at its first call, and takes the first of a name for all",
        "apply gpu_share and priority before the first call, and give different templates different names",
    )  # fmt: skip


def _own(template: Any) -> Tags:
    return Tags() if isinstance(template, models.Template) else said_about(template)


def _around(made: Any) -> Tags:
    return surroundings(made) if hasattr(made, "__dict__") else Tags()


def _name(call: Any) -> str:
    """Return the name of the template that a call refers to; empty where it has none."""
    name = call.template if isinstance(call.template, str) else getattr(call.template, "name", None)
    return name or ""


def _calls(template: Any) -> list[Any]:
    """Return the tasks or steps of a template, in the order in which Hera builds them."""
    if isinstance(template, DAG):
        return list(template.tasks)
    if isinstance(template, Steps):
        return [call for sub_step in template.sub_steps for call in _in_sub_step(sub_step)]
    if isinstance(template, models.Template):
        tasks = template.dag.tasks if template.dag else []
        return [*(tasks or ()), *(step for group in template.steps or () for step in group.root)]
    return []


def _in_sub_step(sub_step: Any) -> list[Any]:
    if isinstance(sub_step, Parallel):
        return list(sub_step.sub_steps)
    return sub_step if isinstance(sub_step, list) else [sub_step]


def _calls_below(template: Any) -> Iterator[Any]:
    """Yield the calls of a template and of those that stand inline in them."""
    for call in _calls(template):
        yield call
        if call.inline is not None:
            yield from _calls_below(call.inline)
