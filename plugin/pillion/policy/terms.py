"""A policy as an author says it (`Terms`: parts may be unsaid or parameters) and as it is meant (`Policy`)."""

from __future__ import annotations

from typing import NamedTuple

from pillion.policy import table
from pillion.policy.problems import PolicyError, Problem
from pillion.policy.units import Memory, OnPreempt, Tier


class Parameter(NamedTuple):
    """A value that Argo fills in when the step runs, such as `{{inputs.parameters.share}}`."""

    text: str


class Terms(NamedTuple):
    """What was said, term by term; None where nothing was."""

    share_milli: int | Parameter | None = None
    limit_milli: int | Parameter | None = None
    memory: Memory | Parameter | None = None
    tier: Tier | Parameter | None = None
    max_slowdown_ppm: int | Parameter | None = None
    max_stall_ns: int | Parameter | None = None
    on_preempt: OnPreempt | Parameter | None = None
    container: str | Parameter | None = None

    def over(self, other: Terms) -> Terms:
        """Return these terms, with `other` filling in what is unsaid here."""
        return Terms._make(mine if mine is not None else theirs for mine, theirs in zip(self, other, strict=True))

    @property
    def has_parameters(self) -> bool:
        """Whether some value is known only when the step runs."""
        return any(isinstance(value, Parameter) for value in self)

    @property
    def preemptible(self) -> bool:
        """Whether the step may lose its pod to a higher tier, so that it needs retries.

        Suspend may end in evict, and what is known only at run time may be either.
        """
        return isinstance(self.on_preempt, Parameter) or self.on_preempt in (OnPreempt.SUSPEND, OnPreempt.EVICT)


class Policy(NamedTuple):
    """What a step is entitled to, with the contract's defaults filled in.

    Attributes:
        share_milli: Guaranteed thousandths of one GPU's time; None only on a low step that said none.
        limit_milli: Cap, in thousandths of one GPU's time.
        memory: GPU memory; None means share x device memory, which only the device's owner can work out.
        tier: Who goes first.
        max_slowdown_ppm: Bound on stolen time in parts per million of wall time; None unless `tier` is high.
        max_stall_ns: Bound on a single delay in nanoseconds; None unless `tier` is high.
        on_preempt: What the step does when a higher tier needs its room.
        container: Which container gets the GPU; None means the platform's rule (see the table).
    """

    share_milli: int | None
    limit_milli: int
    memory: Memory | None
    tier: Tier
    max_slowdown_ppm: int | None
    max_stall_ns: int | None
    on_preempt: OnPreempt
    container: str | None


def inconsistencies(terms: Terms) -> list[Problem]:
    """Return every contradiction between terms that were said. What is unsaid or a parameter contradicts nothing."""
    found = []
    share, limit, tier = terms.share_milli, terms.limit_milli, terms.tier
    if isinstance(share, int) and isinstance(limit, int) and limit < share:
        found.append(
            Problem(
                "limit-below-share",
                f"limit {table.BY_FIELD['limit_milli'].write(limit)} is below share "
                f"{table.BY_FIELD['share_milli'].write(share)}",
                "a limit is at least the share, since the share is guaranteed",
                "raise the limit or lower the share",
                key=table.BY_FIELD["limit_milli"].key,
            )
        )
    if isinstance(tier, Parameter):
        return found
    effective = tier or table.DEFAULT_TIER
    for field in ("max_slowdown_ppm", "max_stall_ns"):
        term = table.BY_FIELD[field]
        if getattr(terms, field) is not None and effective is not Tier.HIGH:
            found.append(
                Problem(
                    "only-on-high",
                    f"{term.name} is set on a {effective.value} step",
                    f"{term.name} bounds what a high step loses to lower tiers",
                    'remove it, or make the step priority "high"',
                    key=term.key,
                )
            )
    return found


def omissions(terms: Terms) -> list[Problem]:
    """Return every term that the contract requires of these and that was not said."""
    tier = terms.tier or table.DEFAULT_TIER
    if isinstance(tier, Parameter):
        return []
    if tier is Tier.LOW and terms.memory is None:
        return [
            Problem(
                "missing-memory",
                "a low step says no memory",
                "a low step reserves memory and nothing else, so it must say how much",
                'add memory, such as "4Gi"',
                key=table.BY_FIELD["memory"].key,
            )
        ]
    if tier is not Tier.LOW and terms.share_milli is None:
        return [
            Problem(
                "missing-share",
                f"a {tier.value} step says no share",
                "a high or normal step is guaranteed a share of the GPU's time, so it must say how much",
                'add a share, such as 0.5, or make the step priority "low"',
                key=table.BY_FIELD["share_milli"].key,
            )
        ]
    return []


def resolve(terms: Terms) -> Policy:
    """Fill in the contract's defaults.

    Raises:
        PolicyError: The terms contradict each other, lack a required one, or still hold a parameter.
    """
    problems = inconsistencies(terms) + omissions(terms)
    for term in table.TERMS:
        value = getattr(terms, term.field)
        if isinstance(value, Parameter):
            problems.append(
                Problem(
                    "unresolved-parameter",
                    f'{term.key} is still "{value.text}"',
                    "by the time a pod is created every value is known",
                    "check that the parameter exists and is spelt right",
                    key=term.key,
                )
            )
    if problems:
        raise PolicyError(*problems)
    said = {term.field: getattr(terms, term.field) for term in table.TERMS}
    high = said["tier"] is Tier.HIGH
    return Policy(
        share_milli=said["share_milli"],
        limit_milli=said["limit_milli"] or table.DEFAULT_LIMIT_MILLI,
        memory=said["memory"],
        tier=said["tier"] or table.DEFAULT_TIER,
        max_slowdown_ppm=(said["max_slowdown_ppm"] or table.DEFAULT_MAX_SLOWDOWN_PPM) if high else None,
        max_stall_ns=(said["max_stall_ns"] or table.DEFAULT_MAX_STALL_NS) if high else None,
        on_preempt=said["on_preempt"] or table.DEFAULT_ON_PREEMPT,
        container=said["container"],
    )
