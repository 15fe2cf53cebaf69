"""What `gpu_share`, `priority` and `defaults` may be applied to in Hera, and why the rest may not."""

from __future__ import annotations

from types import FunctionType
from typing import Any, TypeVar

from hera.workflows import (
    DAG,
    HTTP,
    Container,
    ContainerNode,
    ContainerSet,
    Data,
    Resource,
    Script,
    Step,
    Steps,
    Suspend,
    Task,
    UserContainer,
    Workflow,
)

from pillion.authoring import tags
from pillion.authoring.hera.building import watch
from pillion.authoring.hera.records import record, scripts_behind
from pillion.authoring.tags import Directive, Tags
from pillion.policy import PolicyError, Problem, echo

Target = TypeVar("Target")

_POD_TEMPLATES = (Container, Script, ContainerSet)

_IN_IT = "apply it to the templates that it calls, or give the whole workflow pillion.defaults(...)"
# What makes no pod, or a pod in which nothing of the author's runs, and what to do instead.
_NO_POD: dict[type[Any], tuple[str, str]] = {
    DAG: ("a DAG only orders other templates", _IN_IT),
    Steps: ("a Steps template only orders other templates", _IN_IT),
    Suspend: ("a Suspend template waits and creates no pod", "remove it here"),
    HTTP: ("an HTTP template's request is sent by Argo's agent, in a pod of Argo's own making", "remove it here"),
    Resource: (
        "a Resource template's pod runs Argo's own executor, which creates an object and uses no GPU",
        "apply it to what the manifest creates",
    ),
    Data: ("a Data template's pod runs Argo's own executor, which lists artifacts and uses no GPU", "remove it here"),
}
_CALL = (
    "Argo knows no policy of one call: it belongs to the template, which all its calls share",
    'apply it to the template; for values that differ, say gpu_share("{{inputs.parameters.share}}") and pass arguments',
)
_CONTAINER = ("a pod has one policy", "apply it to the template, and name the container: gpu_share(..., container=)")
# What is no template at all.
_NO_TEMPLATE: dict[type[Any], tuple[str, str]] = {
    Task: _CALL,
    Step: _CALL,
    Workflow: ("it belongs to a step, not to a workflow", "pillion.defaults(...)(workflow) speaks for all its steps"),
    ContainerNode: _CONTAINER,
    UserContainer: _CONTAINER,
    FunctionType: (
        "it belongs to a script's function",
        "put the decorator directly above or directly below @script(...)",
    ),
}
_OTHER = ("in Hera it belongs to a Container, Script or ContainerSet", "apply it to one of these")


def apply(target: Target, directive: Directive) -> Target:
    """Record a directive on a template, or on the template behind a function that `@script` returned.

    Returns:
        The same object: a template is the author's own, and a workflow may hold it already.

    Raises:
        PolicyError: It carries one of the kind already, or is nothing that a policy can be put on.
    """
    watch()
    if isinstance(target, FunctionType):
        scripts = list(scripts_behind(target))
        if len(scripts) != 1:
            raise PolicyError(_refusal(target, directive.source))
        # The function too: someone may make another template from it, which is then a copy of this one.
        tags.stamp(target, directive)
        record(scripts[0], directive)
    elif isinstance(target, _POD_TEMPLATES):
        try:
            record(target, directive)
        except PolicyError as error:
            raise error.at(f'template "{target.name}"') from None
    else:
        raise PolicyError(_refusal(target, directive.source))
    return target


def apply_defaults(target: Target, defaults: Tags) -> Target:
    """Give a workflow its defaults, and return it.

    Raises:
        PolicyError: It has such defaults already, or is no workflow.
    """
    watch()
    if not isinstance(target, Workflow):
        raise PolicyError(
            Problem(
                "defaults-target",
                f"defaults are applied to {_described(target)}",
                "they are for a workflow, for a `with` block, or for a function that makes workflows",
                "a template takes gpu_share(...) and priority(...)",
            )
        )
    for directive in (defaults.gpu_share, defaults.priority):
        if directive is not None:
            record(target, directive)
    return target


def _refusal(target: object, source: str) -> Problem:
    for code, reasons in (("no-pod", _NO_POD), ("not-a-template", _NO_TEMPLATE)):
        for kind, (allowed, fix) in reasons.items():
            if isinstance(target, kind):
                return Problem(code, f"{source} is applied to {_described(target)}", allowed, fix)
    return Problem("not-a-template", f"{source} is applied to {_described(target)}", *_OTHER)


def _described(target: object) -> str:
    name = getattr(target, "__name__" if isinstance(target, FunctionType) else "name", None)
    kind = type(target).__name__
    return f"the {kind} {echo(name)}" if isinstance(name, str) else f"a {kind}"
