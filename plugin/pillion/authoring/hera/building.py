"""Where policies enter Hera's own work: when an object is made, and when a workflow is built.

Hera's pre-build hooks would be the place, but they are looked up by an object's exact type, so that a subclass gets
none; they are forgotten by `global_config.reset()`; a template that stands inline in a task gets none; and they run
before other hooks may have changed the template. Each of these would drop a policy without a word. So four methods of
Hera are extended instead, once, for every type.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import hera
from hera.workflows import Workflow
from hera.workflows._context import _HeraContext
from hera.workflows._mixins import TemplateMixin

from pillion.authoring.hera.records import record_surroundings
from pillion.authoring.hera.resolution import with_policies

Method = Callable[..., Any]

# While a workflow builds its templates: what hooks made of each, by its id. Workflows nest, in a resource's manifest.
_hooked: ContextVar[dict[int, Any] | None] = ContextVar("pillion_hera_hooked", default=None)


def watch() -> None:
    """Have every workflow carry the policies and defaults of its templates from now on.

    Raises:
        RuntimeError: This Hera is made differently from those that are known.
    """
    for owner, name, extended in _EXTENSIONS:
        method = getattr(owner, name, None)
        if method is None:
            raise RuntimeError(f"Hera {hera.__version__} has no {owner.__name__}.{name}; pillion works with Hera 7.1")
        if not hasattr(method, _EXTENDED):
            replacement = functools.wraps(method)(extended(method))
            setattr(replacement, _EXTENDED, True)
            setattr(owner, name, replacement)


def _made(original: Method) -> Method:
    def post_init(workflow: Workflow) -> None:
        original(workflow)
        record_surroundings(workflow)

    return post_init


def _added(original: Method) -> Method:
    # Hera calls this for every template, task and step that is made, whether or not it then belongs to something.
    def add_sub_node(context: Any, node: Any) -> None:
        record_surroundings(node)
        original(context, node)

    return add_sub_node


def _dispatched(original: Method) -> Method:
    def dispatch_hooks(template: Any) -> Any:
        output = original(template)
        hooked = _hooked.get()
        if hooked is not None:
            hooked[id(template)] = output
        return output

    return dispatch_hooks


def _built(original: Method) -> Method:
    def build_templates(workflow: Workflow) -> Any:
        hooked: dict[int, Any] = {}
        token = _hooked.set(hooked)
        try:
            built = original(workflow)
        finally:
            _hooked.reset(token)
        return with_policies(workflow, built or [], hooked) or None

    return build_templates


_EXTENDED = "__pillion_extended__"
_EXTENSIONS: tuple[tuple[type[Any], str, Callable[[Method], Method]], ...] = (
    (Workflow, "__post_init__", _made),
    (_HeraContext, "add_sub_node", _added),
    (TemplateMixin, "_dispatch_hooks", _dispatched),
    (Workflow, "_build_templates", _built),
)
