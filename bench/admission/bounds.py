"""What could be had at most: bounds on the low tenants' speed, computed without any of the code that is measured.

docs/admission.md derives them. All times in nanoseconds; a result is a part of the device's time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True)
class Plan:
    """Lend a pause from its first moment to `gain_ns` of units: what the high step waits, how many pauses it takes."""

    gain_ns: float
    cost_ns: float
    pauses: int


LONGEST_PAUSES = 8


def play(burst_ns: float, pause_ns: float, work_ns: float, slice_ns: float, switch_ns: float) -> Plan:
    """Play one plan through: `work_ns` without a break from the start of a pause, then the driver's turns.

    Work that never ends is cut off after `LONGEST_PAUSES`: by then it goes in circles.
    """
    left, waited, pauses = work_ns, 0.0, 1
    in_slice = slice_ns  # left of the low step's slice
    in_pause = pause_ns - switch_ns
    while True:
        alone = min(left, max(in_pause, 0.0))
        left -= alone
        in_slice = slice_ns - alone % slice_ns if alone else in_slice
        late = max(-in_pause, 0.0)  # the high step came back before the switch to the low one was over
        waited += late
        high = burst_ns
        while left > 0 and high > 0:
            turn = min(left, in_slice)
            waited += turn + switch_ns
            left -= turn
            if left <= 0:
                return Plan(work_ns, waited, pauses)
            served = min(high, slice_ns)
            high -= served
            if high > 0:
                waited += switch_ns
            in_slice = slice_ns
        if left <= 0:
            return Plan(work_ns, waited + switch_ns, pauses)
        if pauses == LONGEST_PAUSES:
            return Plan(work_ns - left, waited, pauses)
        in_pause = pause_ns - switch_ns
        pauses += 1


def best_mix(plans: list[Plan], period_ns: float, budget_ns: float) -> float:
    """Return the greatest speed of a mixture of plans that may cost `budget_ns` of waiting per pause.

    Speed is a quotient of two linear functions of the mixture, so its maximum lies at a corner: one plan, or two when
    both limits (one pause per pause, the budget) are tight.
    """
    best = 0.0
    for plan in plans:
        times = min(1 / plan.pauses, budget_ns / plan.cost_ns if plan.cost_ns else math.inf)
        best = max(best, times * plan.gain_ns / (period_ns + times * plan.cost_ns))
    for one, other in combinations(plans, 2):
        # x pauses_1 + y pauses_2 = 1, x cost_1 + y cost_2 = budget
        determinant = one.pauses * other.cost_ns - other.pauses * one.cost_ns
        if not determinant:
            continue
        x = (other.cost_ns - other.pauses * budget_ns) / determinant
        y = (one.pauses * budget_ns - one.cost_ns) / determinant
        if x >= 0 and y >= 0:
            best = max(best, (x * one.gain_ns + y * other.gain_ns) / (period_ns + budget_ns))
    return best


def clairvoyant(
    burst_ns: float, pause_ns: float, unit_ns: float, bound: float, switch_ns: float = 0, slice_ns: float = 1e15
) -> float:
    """Return the low step's greatest speed beside regular pauses, by default on a device that shares for free."""
    period_ns = burst_ns + pause_ns
    most = int(3 * period_ns / unit_ns) + 2
    fit = max(1, int((pause_ns - switch_ns) / unit_ns))
    counts = sorted({1, *range(max(1, fit - 2), fit + 4), *range(1, most, max(1, most // 150)), 1000 * most})
    plans = [play(burst_ns, pause_ns, count * unit_ns, slice_ns, switch_ns) for count in counts]
    return best_mix(plans, period_ns, bound * period_ns)


def memoryless(burst_ns: float, mean_pause_ns: float, unit_ns: float, bound: float, switch_ns: float) -> float:
    """Return the low step's greatest speed beside memoryless pauses, for a policy that cannot foresee them."""
    started, term, j = 1.0, 1.0, 1
    while term > 1e-9:
        term = math.exp(-(switch_ns + j * unit_ns) / mean_pause_ns)
        started += term
        j += 1
    gain_ns = started * unit_ns
    cost_ns = 2 * switch_ns + gain_ns - mean_pause_ns  # given back once; what was started outlasts the pause by so much
    period_ns = burst_ns + mean_pause_ns
    budget_ns = bound * period_ns
    lent = min(1.0, budget_ns / cost_ns)
    # Beyond that, going on beside the busy step gains as much as it steals, until low gets as much as high.
    spare_ns = min(budget_ns - lent * cost_ns, burst_ns)
    return (lent * gain_ns + spare_ns) / (period_ns + lent * cost_ns + spare_ns)
