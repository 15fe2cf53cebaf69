"""`--set 'train.*: share=0.5,priority=low'`: policies for the steps of a manifest that somebody else wrote."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Any

from pillion.authoring.manifests.steps import Step
from pillion.policy import TERMS, PolicyError, Terms, echo, inconsistencies, read_term

_RETRIES = "retries"
_RETRIES_MAX = 1000
_BY_NAME = {term.name: term for term in TERMS}
_NAMES = (*_BY_NAME, _RETRIES)
_EXAMPLE = "such as 'train.*: share=0.5,memory=8Gi'"
# The colon is the first that a term follows: a pattern may hold others. Likewise for commas and values.
_SHAPE = re.compile(r"(?s)(?P<pattern>.*?):\s*(?P<terms>[\w-]+\s*=.*)")
_COMMA = re.compile(r",(?=\s*[\w-]+\s*=)")
_KFP_PREFIX = "exec-"


class SettingError(ValueError):
    """A `--set` that cannot be read: the command is misused."""


@dataclass(frozen=True)
class Setting:
    """One `--set`.

    Attributes:
        source: As it was written.
        pattern: Regular expression that a step's whole name matches.
        terms: What it says; the rest stays as the step has it.
        retries: How often a preempted step is tried again; None where that is not said.
    """

    source: str
    pattern: re.Pattern[str]
    terms: Terms
    retries: int | None = None

    def matches(self, step: Step) -> bool:
        """Whether this is meant for a step; KFP's executors go by their component's name too."""
        return not step.shared and any(self.pattern.fullmatch(name) for name in names_of(step))

    def spells_out(self, step: Step) -> bool:
        """Whether this names exactly this step, instead of all steps that look alike."""
        return any(self.pattern.pattern in (name, re.escape(name)) for name in names_of(step))


def names_of(step: Step) -> list[str]:
    """Return the names by which people know a step."""
    short = step.name.removeprefix(_KFP_PREFIX) if step.platform == "kfp" else step.name
    return [step.name, short]


def parse_setting(text: str) -> Setting:
    """Read one `--set`: a pattern, a colon, and terms as `name=value`, separated by commas.

    Raises:
        SettingError: It has another shape, or says something that the contract does not allow.
    """
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        raise SettingError(f"{echo(text)} is not a pattern, a colon and terms, {_EXAMPLE}")
    pattern = shape["pattern"].strip()
    if not pattern:
        raise SettingError(f"{echo(text)} names no step before the colon; '.*' is all of them")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise SettingError(f"{echo(pattern)} is not a regular expression: {error}") from None
    said: dict[str, str] = {}
    for part in _COMMA.split(shape["terms"]):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise SettingError(f"{echo(part.strip())} in {echo(text)} is not name=value, {_EXAMPLE}")
        if name not in _NAMES:
            near = difflib.get_close_matches(name.lower().replace("_", "-"), _NAMES, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingError(f"{echo(name)} in {echo(text)} is no term: there are {', '.join(_NAMES)}{hint}")
        if name in said:
            raise SettingError(f"{echo(text)} says {name} twice")
        said[name] = value
    retries = _retries(said.pop(_RETRIES)) if _RETRIES in said else None
    return Setting(text, compiled, _terms(said), retries)


def _retries(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text, re.ASCII) or int(text) > _RETRIES_MAX:
        raise SettingError(f"{_RETRIES} is {echo(text)}; it is a whole number from 0 to {_RETRIES_MAX}")
    return int(text)


def _terms(said: dict[str, str]) -> Terms:
    values: dict[str, Any] = {}
    try:
        for name, text in said.items():
            values[_BY_NAME[name].field] = read_term(_BY_NAME[name], text, subject=name, parameters=True)
    except PolicyError as error:
        raise SettingError(str(error)) from None
    terms = Terms(**values)
    # Which tier a step has is for the step to say where the setting does not; then nothing contradicts it yet.
    problems = [
        found for found in inconsistencies(terms) if terms.tier is not None or found.code == "limit-below-share"
    ]
    if problems:
        raise SettingError("\n".join(map(str, problems)))
    return terms
