"""The contract's one table: every annotation, its values, its default and its meaning.

The parser, the writer, the decorators' arguments, the checker and `docs/contract.md` all come from or are tested
against `TERMS`. To change the contract, change it here.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from pillion.policy import units

PREFIX = "pillion.dev/"
MANAGED_LABEL = PREFIX + "managed"
MANAGED_VALUE = "true"
HASH_ENV = "PILLION_POLICY_HASH"


class Term(NamedTuple):
    """One annotation.

    Attributes:
        name: The annotation's name after the prefix.
        field: The attribute of `Terms` and `Policy` that holds its value.
        argument: The decorator argument that sets it.
        values: What is accepted, for people.
        default: What holds when it is not said, for people.
        meaning: What it means, for people.
        read: Text to value; raises `units.BadValueError`.
        write: Value to canonical text.
    """

    name: str
    field: str
    argument: str
    values: str
    default: str
    meaning: str
    read: Callable[[str], Any]
    write: Callable[[Any], str]

    @property
    def key(self) -> str:
        """The full annotation key."""
        return PREFIX + self.name

    @property
    def code(self) -> str:
        """The code of the rule that a bad value of this term breaks."""
        return f"{self.name}-value"


def _name_of(value: Enum) -> str:
    return str(value.value)


TERMS: tuple[Term, ...] = (
    Term(
        "share", "share_milli", "gpu_share(share)", "`0.01` … `1`, as `0.5` or `500m`",
        "`high`, `normal`: required; `low`: none",
        "fraction of one GPU's time that is guaranteed under contention; on `low` a weight among guests, no guarantee",
        units.read_share, units.write_milli,
    ),
    Term(
        "limit", "limit_milli", "gpu_share(limit=)", "share … `1`", "`1`",
        "the most GPU time the step may take, even of an otherwise idle GPU",
        units.read_limit, units.write_milli,
    ),
    Term(
        "memory", "memory", "gpu_share(memory=)", "Kubernetes quantity, `8Gi`",
        "share × device memory; `low` must say it",
        "GPU memory the step may allocate", units.read_memory, units.write_memory,
    ),
    Term(
        "priority", "tier", "priority(tier)", "`high` `normal` `low`", "`normal`",
        "tier: who goes first", units.read_tier, _name_of,
    ),
    Term(
        "max-slowdown", "max_slowdown_ppm", "priority(max_slowdown=)", "`0.1%` … `50%`", "`1%`; only on `high`",
        "bound on the time stolen by lower tiers, of wall time", units.read_slowdown, units.write_slowdown,
    ),
    Term(
        "max-stall", "max_stall_ns", "priority(max_stall=)", "`0.1ms` … `10s`", "`10ms`; only on `high`",
        "bound on any single delay by lower tiers", units.read_stall, units.write_stall,
    ),
    Term(
        "on-preempt", "on_preempt", "priority(on_preempt=)", "`wait` `suspend` `evict`", "`wait`",
        "what a lower tier does when a higher one needs the room", units.read_on_preempt, _name_of,
    ),
    Term(
        "container", "container", "gpu_share(container=)", "container name",
        "Argo and KFP: `main`; else the only container",
        "which container gets the GPU", units.read_container, str,
    ),
)  # fmt: skip

BY_KEY: dict[str, Term] = {term.key: term for term in TERMS}
BY_FIELD: dict[str, Term] = {term.field: term for term in TERMS}

# What stands in for a term that is not said. share, memory and container have no value of their own: see the table.
DEFAULT_LIMIT_MILLI = 1000
DEFAULT_TIER = units.Tier.NORMAL
DEFAULT_MAX_SLOWDOWN_PPM = 10_000
DEFAULT_MAX_STALL_NS = 10_000_000
DEFAULT_ON_PREEMPT = units.OnPreempt.WAIT

# Cluster objects of the same names govern who may use which tier (`templates/priority-classes.yaml`).
PRIORITY_CLASS: dict[units.Tier, str] = {tier: f"pillion-{tier.value}" for tier in units.Tier}
