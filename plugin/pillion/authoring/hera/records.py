"""What was said about a Hera object, kept on the object itself, so that it goes along when Hera copies it."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

from hera.workflows import Script

from pillion.authoring import tags
from pillion.authoring.decorators import current_defaults
from pillion.authoring.tags import ATTRIBUTE, Directive, Tags

_AROUND = f"{ATTRIBUTE}around"


def record(target: Any, directive: Directive) -> None:
    """Record a directive on a template, or a default on a workflow.

    Raises:
        PolicyError: There is one of its kind already.
    """
    vars(target)[ATTRIBUTE] = recorded(target).adding(directive)


def recorded(target: Any) -> Tags:
    """Return what was recorded on this very object."""
    found = vars(target).get(ATTRIBUTE, Tags())
    return found if isinstance(found, Tags) else Tags()


def said_about(template: Any) -> Tags:
    """Return what the author said about a template; for a script also on its function."""
    own = recorded(template)
    if isinstance(template, Script) and callable(template.source):
        function = getattr(template.source, "__func__", template.source)  # a method's
        own = own.over(tags.function_tags(function))
    return own


def record_surroundings(target: Any) -> None:
    """Record the `defaults` blocks that the object is made in; those that it was made in before come first."""
    defaults = current_defaults()
    if defaults:
        vars(target)[_AROUND] = surroundings(target).over(defaults)


def surroundings(target: Any) -> Tags:
    """Return the `defaults` that the object was made in."""
    found = vars(target).get(_AROUND, Tags())
    return found if isinstance(found, Tags) else Tags()


def scripts_behind(function: FunctionType) -> Iterator[Script]:
    """Yield the template that `@script` made, given the function that it returned.

    Hera keeps it in that function's closure alone; there is no other way from the one to the other.
    """
    for cell in function.__closure__ or ():
        try:
            content = cell.cell_contents
        except ValueError:  # an empty cell
            continue
        if isinstance(content, Script):
            yield content
