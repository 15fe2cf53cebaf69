"""Policies as pod annotations: the strict parser, the canonical writer, and the hash that travels beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pillion.policy import table
from pillion.policy.problems import PolicyError, Problem, echo
from pillion.policy.terms import Parameter, Policy, Terms, inconsistencies, omissions
from pillion.policy.units import BadValueError

_HASH_HEX_DIGITS = 16  # 64 bits: it tells policies of one pipeline apart; it is not a signature
_KFP_CHANNEL = "{{channel:"


def is_parameter(text: str) -> bool:
    """Whether Argo fills in (part of) this value at run time: `{{inputs.parameters.share}}`, `{{=expression}}`."""
    start = text.find("{{")
    return start >= 0 and text.find("}}", start) > start


def read_term(term: table.Term, value: object, *, subject: str, parameters: bool) -> Any:
    """Read one term's value.

    Args:
        term: Which term.
        value: Its text; anything else is an error.
        subject: How an error calls the value: the annotation's key, or a decorator's argument.
        parameters: Whether a run-time parameter is legal here.

    Returns:
        The value in the unit of `term.field`, or a `Parameter`.

    Raises:
        PolicyError: The value is not text, is a parameter where none may be, or is out of range.
    """
    given = f"{subject} is {echo(value)}"
    if not isinstance(value, str):
        problem = Problem(
            "not-a-string", given, "its value is text, in quotes", f"write {_quoted(value)}", key=term.key
        )
    elif _KFP_CHANNEL in value:
        problem = Problem(
            "kfp-parameter", given, "no KFP run-time value reaches an annotation: it must be known when compiling",
            "use a constant, or one task per value under dsl.If", key=term.key,
        )  # fmt: skip
    elif is_parameter(value) and parameters:
        return Parameter(value)
    elif is_parameter(value):
        problem = Problem(
            "parameter-not-allowed", given, "run-time parameters are possible in Argo and Hera only", "use a constant",
            key=term.key,
        )  # fmt: skip
    else:
        try:
            return term.read(value)
        except BadValueError as bad:
            problem = Problem(term.code, given, bad.allowed, bad.fix, key=term.key)
    raise PolicyError(problem)


def _quoted(value: object) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f'"{value}"' if number else "one value, in quotes"


def read(annotations: Mapping[Any, object], *, parameters: bool = False) -> Terms:
    """Read the policy that pod annotations state; annotations of others are ignored.

    Args:
        annotations: A pod's, or a pod template's, `metadata.annotations`.
        parameters: Whether run-time parameters are legal (they are in Argo specs, not in a pod).

    Returns:
        What was said. `resolve` turns it into a policy; `inconsistencies` and `omissions` have been ruled out.

    Raises:
        PolicyError: With every mistake in them.
    """
    terms, problems = examine(annotations, parameters=parameters)
    problems += inconsistencies(terms) + omissions(terms) if not problems else []
    if problems:
        raise PolicyError(*problems)
    return terms


def examine(annotations: Mapping[Any, object], *, parameters: bool = False) -> tuple[Terms, list[Problem]]:
    """Read what can be read, and return it with the problems of what cannot; for callers that report all mistakes."""
    said: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, value in annotations.items():
        if not is_ours(key):
            continue
        term = table.BY_KEY.get(key)
        if term is None:
            problems.append(unknown_key(key))
            continue
        try:
            said[term.field] = read_term(term, value, subject=key, parameters=parameters)
        except PolicyError as error:
            problems.extend(error.problems)
    return Terms(**said), problems


def is_ours(key: object) -> bool:
    """Whether an annotation or label key is in Pillion's name space, or is meant to be: case and blanks aside."""
    return isinstance(key, str) and key.strip().lower().startswith(table.PREFIX)


def unknown_key(key: str) -> Problem:
    """Return the problem of an annotation in our name space that the contract does not know."""
    if key == table.MANAGED_LABEL:
        return Problem(
            "managed-is-a-label", f"{key} stands among the annotations", "it is a label",
            f'move it to metadata.labels, as {key}: "{table.MANAGED_VALUE}"', key=key,
        )  # fmt: skip
    import difflib  # noqa: PLC0415 - needed for an error only, and slow to import

    near = difflib.get_close_matches(key.strip().lower(), table.BY_KEY, n=1, cutoff=0.0)[0]
    return Problem(
        "unknown-key", f"{echo(key)[1:-1]} is not an annotation that Pillion knows",
        f"the known ones are {', '.join(table.BY_KEY)}", f"did you mean {near}?", key=key,
    )  # fmt: skip


def write(terms: Terms | Policy) -> dict[str, str]:
    """Write a policy as annotations: sorted keys, one spelling per value, nothing that the contract's defaults say.

    The tier is always written, so that a person who looks at the pod sees it. Equal policies give equal bytes.
    """
    written = {table.BY_FIELD["tier"].key: table.DEFAULT_TIER.value}
    unsaid = {
        "limit_milli": table.DEFAULT_LIMIT_MILLI,
        "max_slowdown_ppm": table.DEFAULT_MAX_SLOWDOWN_PPM,
        "max_stall_ns": table.DEFAULT_MAX_STALL_NS,
        "on_preempt": table.DEFAULT_ON_PREEMPT,
    }
    for term in table.TERMS:
        value = getattr(terms, term.field)
        if isinstance(value, Parameter):
            written[term.key] = value.text
        elif value is not None and value != unsaid.get(term.field):
            written[term.key] = term.write(value)
    return dict(sorted(written.items()))


def policy_hash(terms: Terms | Policy) -> str:
    """Return 16 hexadecimal digits that differ when the annotations do.

    KFP can attach one step's annotations to another; an environment variable (`table.HASH_ENV`) cannot stray, so the
    two are compared after compiling and at admission.
    """
    import hashlib  # noqa: PLC0415 - loads OpenSSL, which a step's own process does not need

    text = "\n".join(f"{key}={value}" for key, value in write(terms).items())
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_HEX_DIGITS]
