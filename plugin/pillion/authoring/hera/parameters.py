"""Argo's run-time parameters: Hera objects that stand for them, and whether a template can know them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from hera.expr._node import Node
from hera.workflows import Parameter

from pillion.policy import BY_FIELD, PolicyError, Problem, Terms, is_parameter
from pillion.policy import Parameter as RunTimeValue

_TAG = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
# Inside an expression a name with other characters needs brackets; in a simple tag it does not.
_INPUT_IN_EXPRESSION = re.compile(r"""(?<![\w.])inputs\.parameters(?:\.(\w+)|\[\s*(['"])(.*?)\2\s*\])""")
_INPUT_IN_TAG = re.compile(r"inputs\.parameters\.([-\w]+)")
# What only the template that calls this one can resolve.
_OF_THE_CALLER = re.compile(r"""(?<![-\w.'"])(item|steps|tasks)(?![-\w'"])""")


def parameter_text(value: object) -> object:
    """Return an annotation's text for a Hera parameter or expression; anything else as it is, for the reader to refuse.

    Raises:
        PolicyError: The parameter does not say where its value comes from.
    """
    if isinstance(value, Node):
        return f"{value:=}"
    if not isinstance(value, Parameter):
        return value
    # Hera writes a parameter as its value. That of an input's declaration holds when no call says otherwise; written as
    # a policy it would overrule the calls.
    if isinstance(value.value, str) and is_parameter(value.value):
        return value.value
    raise PolicyError(
        Problem(
            "parameter-declaration",
            f'the parameter "{value.name}" is given where its run-time value is meant',
            f"that is {{{{inputs.parameters.{value.name}}}}}",
            f'pass that as text, or template.get_parameter("{value.name}")',
        )
    )


def unknown_parameters(terms: Terms, inputs: Collection[str]) -> list[Problem]:
    """Return a problem for every parameter in `terms` that a template with these input parameters cannot know."""
    problems = []
    for field, value in zip(terms._fields, terms, strict=True):
        if not isinstance(value, RunTimeValue):
            continue
        for name, of_caller in _references(value.text):
            if of_caller:
                what = f"{BY_FIELD[field].key} is {value.text}, which only the caller of the template knows"
                fix = "declare an input parameter, and have the call pass this as its argument"
            elif name not in inputs:
                what = f'{BY_FIELD[field].key} is {value.text}, but the template has no input parameter "{name}"'
                fix = f'add inputs=Parameter(name="{name}")'
            else:
                continue
            allowed = f"its input parameters are {', '.join(inputs)}" if inputs else "it has no input parameters"
            problems.append(Problem("unknown-parameter", what, allowed, fix, key=BY_FIELD[field].key))
    return problems


def _references(text: str) -> Iterator[tuple[str, bool]]:
    """Yield what the tags in `text` refer to, as (name, whether it is the caller's)."""
    for tag in _TAG.findall(text):
        expression = tag.strip()
        if expression.startswith("="):
            for match in _INPUT_IN_EXPRESSION.finditer(expression):
                yield match[1] or match[3], False
        elif simple := _INPUT_IN_TAG.fullmatch(expression):
            yield simple[1], False
        for match in _OF_THE_CALLER.finditer(expression):
            yield match[1], True
