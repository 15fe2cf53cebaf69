"""What is wrong with a policy, told the same way everywhere: what was given, what is allowed, what to do.

A `Problem` carries no position in a file; whoever knows one (the checker, a traceback) adds it.
"""

from __future__ import annotations

from typing import NamedTuple

_ECHO_LIMIT = 60  # characters of a user's value that an error repeats


class Problem(NamedTuple):
    """One mistake.

    Attributes:
        code: Stable kebab-case name of the broken rule; `docs/rules.md` has a line for each.
        what: What was given, in the user's own words.
        allowed: What would be right.
        fix: What to do about it; may be empty where `allowed` says it already.
        where: The step it belongs to, such as `template "train"`; empty where the caller knows better.
        key: The annotation at fault, or None where the mistake is not one annotation's.
    """

    code: str
    what: str
    allowed: str
    fix: str = ""
    where: str = ""
    key: str | None = None

    def at(self, where: str) -> Problem:
        """Return the same problem, attributed to the step `where`."""
        return self._replace(where=where)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        fix = f" ({self.fix})" if self.fix else ""
        return f"{place}{self.what}; {self.allowed}{fix}"


class PolicyError(ValueError):
    """A policy that cannot be meant as it stands. `problems` lists every mistake found, not only the first."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n".join(map(str, problems)))

    def at(self, where: str) -> PolicyError:
        """Return the same error with each of its problems attributed to the step `where`."""
        return PolicyError(*(problem.at(where) for problem in self.problems))


def echo(value: object) -> str:
    """Return `value` as an error message repeats it: quoted if it is text, on one line, never long."""
    text = value if isinstance(value, str) else repr(value)
    text = text if len(text) <= _ECHO_LIMIT else f"{text[:_ECHO_LIMIT]}… ({len(text)} characters)"
    text = text.encode("unicode_escape").decode() if not text.isprintable() else text
    return f'"{text}"' if isinstance(value, str) else text


class PolicyWarning(UserWarning):
    """Something of the author's own stands where a policy would have put something else, and was kept."""
