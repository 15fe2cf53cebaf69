"""How fast the lower tiers may earn credit to delay a high step.

The gate spends the credit; this is the rate at which it comes. All of it goes to the one normal or low step that
holds the lease, so that the sum of all budgets is the bound itself: over time, turns divide it by weight. What high
steps report as stolen closes the loop: what was stolen beyond the bound in the window is taken off the rate until it
has been made good.
"""

from __future__ import annotations

from typing import NamedTuple

from pillion.scheduling.arbiter import window
from pillion.scheduling.arbiter.seats import Seat
from pillion.scheduling.arbiter.terms import LeaseState, State


class Care(NamedTuple):
    """What is owed to the high steps of a GPU.

    Attributes:
        budget_ppm: Rate of credit for all lower steps together.
        max_stall_ns: Longest delay that one submission may cause.
    """

    budget_ppm: int
    max_stall_ns: int


def care(seats: list[Seat], state: State, now_ns: int) -> Care | None:
    """Return what the lower tiers must keep to: what the strictest high step asks; None if none may run.

    A high step that is at its own limit loses nothing to others.
    """
    high = [seat for seat in seats if seat.rank == 0 and seat.state is not LeaseState.STOP]
    if not high:
        return None
    budgets = []
    for seat in high:
        bound_ppm = seat.tenant.policy.max_slowdown_ppm or 0
        stolen_ns = window.used_ns(seat.stolen, now_ns, state.tuning.window_ns)
        excess_ppm = stolen_ns * 1_000_000 // state.tuning.window_ns - bound_ppm
        budgets.append(max(0, bound_ppm - max(0, excess_ppm)))
    return Care(min(budgets), min(seat.tenant.policy.max_stall_ns or 0 for seat in high))
