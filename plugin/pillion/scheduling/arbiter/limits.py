"""Limits: the most device time a step may take, over the window and from one moment to the next.

Over the window the limit is a wall: at the limit, wait until enough has left the window. That alone would let a step
limited to 0.5 run for half a second and then stand for as long, so it is also paced: a step that goes faster than its
limit spends tokens, one quantum of running at full speed in all, and once they are gone it waits until it has them
back.
"""

from __future__ import annotations

from pillion.scheduling.arbiter import window
from pillion.scheduling.arbiter.seats import Seat
from pillion.scheduling.arbiter.terms import NEVER_NS, LeaseState, State


def hold_to_share(seats: list[Seat], state: State) -> None:
    """Lower high steps' limits to their shares while a normal step has work, where the tuning says so."""
    if state.tuning.high_keeps_to_share and any(seat.rank == 1 and seat.wants for seat in seats):
        for seat in seats:
            if seat.rank == 0:
                seat.limit_milli = min(seat.limit_milli, seat.weight)


def hold_back(seats: list[Seat], state: State, now_ns: int) -> int:
    """Block the seats that are at their limit.

    Returns:
        When this may change by itself.
    """
    window_ns, quantum_ns = state.tuning.window_ns, state.tuning.quantum_ns
    wake_ns = NEVER_NS
    for seat in seats:
        limit = seat.limit_milli
        if limit >= 1000:
            seat.paced = False
            continue
        most_ns = quantum_ns * (1000 - limit) // 1000
        allowed_ns = window_ns * limit // 1000
        seat.tokens_ns = max(seat.tokens_ns, -allowed_ns)  # no debt takes longer than a window to pay
        if state.decided_ns is None or seat.tokens_ns >= most_ns or not seat.usage.total_ns:
            seat.tokens_ns = most_ns
        seat.paced = seat.tokens_ns <= 0 or (seat.paced and seat.tokens_ns < most_ns)
        left_ns = allowed_ns - window.used_ns(seat.usage, now_ns, window_ns)
        if left_ns <= 0:
            seat.blocked = True
            wake_ns = min(wake_ns, window.below_at_ns(seat.usage, allowed_ns, window_ns))
        if seat.paced:
            seat.blocked = True
            wake_ns = min(wake_ns, now_ns - (seat.tokens_ns - most_ns) * 1000 // limit)
        elif left_ns > 0 and seat.state is LeaseState.RUN:
            wake_ns = min(wake_ns, now_ns + min(left_ns, seat.tokens_ns * 1000 // (1000 - limit)))
    return wake_ns
