"""What normal and low tenants do while there is no agent: each has its own part of every period, and none overlap."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pillion.policy import Policy, Tier

PERIOD_NS = 100_000_000
LOW_PPM = 50_000
"""What all low tenants together get of a period while normal ones share the rest."""
_WHOLE_PPM = 1_000_000
_GUEST_WEIGHT_MILLI = 100


class Duty(NamedTuple):
    """One tenant's part of a period, in millionths: how much, and where it begins."""

    ppm: int
    phase_ppm: int


NO_DUTY = Duty(0, 0)


def share_out(policies: Iterable[tuple[str, Policy]]) -> dict[str, Duty]:
    """Divide a period among the tenants of one GPU.

    High tenants need no part: they never wait. Normal ones divide theirs by share; low ones divide what normal ones
    leave to them by weight. Somebody who is alone gets all of it.
    """
    ordered = sorted(policies)
    normal = [(name, policy.share_milli or 1) for name, policy in ordered if policy.tier is Tier.NORMAL]
    low = [(name, policy.share_milli or _GUEST_WEIGHT_MILLI) for name, policy in ordered if policy.tier is Tier.LOW]
    for_low = 0 if not low else LOW_PPM if normal else _WHOLE_PPM
    found: dict[str, Duty] = {}
    phase = 0
    for group, whole in ((normal, _WHOLE_PPM - for_low), (low, for_low)):
        weights = sum(weight for _, weight in group)
        for name, weight in group:
            part = whole * weight // weights
            found[name] = Duty(part, phase)
            phase += part
    return found
