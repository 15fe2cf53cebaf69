"""What an author has said about one object, and whose word wins when several things were said.

Each directive, `gpu_share` or `priority`, replaces a farther one of its kind as a whole: `gpu_share(0.25)` on a task
does not inherit the memory of its component's `gpu_share(0.5, memory="8Gi")`. From near to far: task, component (the
outermost decorator first), `defaults`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pillion.policy.problems import PolicyError, Problem
from pillion.policy.terms import Terms, omissions

ATTRIBUTE = "__pillion__"
# On a function that `@defaults(...)` made, and on those that wrap it; a step's own function is never called here.
DEFAULTS_ATTRIBUTE = "__pillion_defaults__"


class Directive(NamedTuple):
    """One `gpu_share(...)` or `priority(...)`.

    Attributes:
        name: Which of the two.
        terms: The terms it says.
        source: How it was written, for messages.
        retries: How often a preempted step is tried again; None if that was not said.
        priority_class: Whether the spec names the tier's PriorityClass.
    """

    name: str
    terms: Terms
    source: str
    retries: int | None = None
    priority_class: bool = True


class Tags(NamedTuple):
    """At most one directive of each kind."""

    gpu_share: Directive | None = None
    priority: Directive | None = None

    def __bool__(self) -> bool:
        return self.gpu_share is not None or self.priority is not None

    def adding(self, directive: Directive) -> Tags:
        """Return these tags and `directive`.

        Raises:
            PolicyError: There is one of its kind already.
        """
        present = getattr(self, directive.name)
        if present is not None:
            raise PolicyError(
                Problem(
                    "directive-twice",
                    f"{directive.source} is applied where {present.source} already is",
                    f"one object carries at most one {directive.name}",
                    "merge the two; to differ from a component for one step, apply it to the task instead",
                )
            )
        return self._replace(**{directive.name: directive})

    def over(self, farther: Tags) -> Tags:
        """Return these tags, with those of `farther` for the kinds that are missing here."""
        return Tags(self.gpu_share or farther.gpu_share, self.priority or farther.priority)

    @property
    def retries(self) -> int | None:
        """How often the author wants a preempted step to be tried again; None if that was not said."""
        return self.priority.retries if self.priority else None

    @property
    def priority_class(self) -> bool:
        """Whether the spec names the tier's PriorityClass."""
        return self.priority is None or self.priority.priority_class

    def terms(self) -> Terms:
        """Return everything said, checked to be complete.

        Raises:
            PolicyError: The contract requires a term that was not said.
        """
        said = Terms()
        for directive in (self.gpu_share, self.priority):
            said = said.over(directive.terms) if directive else said
        problems = omissions(said)
        if problems:
            raise PolicyError(*problems)
        return said


# How often a preemptible step is tried again unless its author says otherwise.
_DEFAULT_RETRIES = 5


def retry_limit(said: int | None, terms: Terms) -> int | None:
    """Return how often a step is tried again; None where that is no concern of its policy's.

    Args:
        said: What its author said, if anything.
        terms: Its policy.
    """
    return _DEFAULT_RETRIES if said is None and terms.preemptible else said


class _Stamp(NamedTuple):
    """Tags on a function. `functools.wraps` copies a function's attributes, so the stamp knows whose it is."""

    owner: weakref.ref[Any]
    tags: Tags


def stamp(function: Callable[..., Any], directive: Directive) -> None:
    """Record `directive` on a function.

    Raises:
        PolicyError: This very function already carries one of its kind.
    """
    tags = own_tags(function).adding(directive)
    setattr(function, ATTRIBUTE, _Stamp(weakref.ref(function), tags))


def own_tags(function: Callable[..., Any]) -> Tags:
    """Return what was said about this function itself, not what it copied from a function that it wraps."""
    found = vars(function).get(ATTRIBUTE) if hasattr(function, "__dict__") else None
    return found.tags if isinstance(found, _Stamp) and found.owner() is function else Tags()


def function_tags(function: Callable[..., Any]) -> Tags:
    """Return what was said about a function and about those it wraps; the outermost wins."""
    said = Tags()
    for layer in layers(function):
        said = said.over(own_tags(layer))
    return said


def layers(function: Callable[..., Any]) -> Iterator[Any]:
    """Yield a function and those it wraps, as `functools.wraps` tells, outermost first."""
    seen: set[int] = set()
    current: Any = function
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = getattr(current, "__wrapped__", None)
