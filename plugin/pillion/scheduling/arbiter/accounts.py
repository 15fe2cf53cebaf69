"""Who has used how much up to now.

Two accounts are kept apart. *Time held*, from the arbiter's own leases and clock, decides whose turn it is: nothing
that a client says about itself can make it smaller, except saying that it has no work, which costs it the lease.
*Device time used*, as the client's page counts it, decides about its limit; whatever it says, no report counts for more
than a window's length.
"""

from __future__ import annotations

from pillion.scheduling.arbiter import window
from pillion.scheduling.arbiter.seats import Seat
from pillion.scheduling.arbiter.terms import LeaseState, State


def set_back(state: State, now_ns: int) -> State:
    """Return the state as a clock that has been set back to `now_ns` would have recorded it, so that nothing ages."""
    if state.decided_ns is None or now_ns >= state.decided_ns:
        return state
    by_ns, window_ns = now_ns - state.decided_ns, state.tuning.window_ns
    tenants = []
    for tenant in state.tenants:
        standing = tenant.standing
        tenants.append(
            tenant._replace(
                registered_ns=tenant.registered_ns + by_ns,
                residence_since_ns=tenant.residence_since_ns + by_ns,
                standing=standing._replace(
                    lease=standing.lease._replace(since_ns=standing.lease.since_ns + by_ns),
                    usage=window.shifted(standing.usage, by_ns, window_ns),
                    stolen=window.shifted(standing.stolen, by_ns, window_ns),
                    since_ns=standing.since_ns + by_ns,
                ),
            )
        )
    return state._replace(tenants=tuple(tenants), decided_ns=now_ns)


def charge(seats: list[Seat], state: State, now_ns: int) -> None:
    """Charge everyone for the time since the last decision, at most a window's length of it."""
    window_ns = state.tuning.window_ns
    last_ns = now_ns if state.decided_ns is None else max(state.decided_ns, now_ns - window_ns)
    elapsed_ns = now_ns - last_ns
    for seat in seats:
        standing, report = seat.tenant.standing, seat.tenant.report
        held_ns = elapsed_ns if standing.lease.charged else 0
        seat.virtual_ns += held_ns * 1000 // seat.weight
        spent_ns, seat.device_ns = held_ns, report.device_ns
        if report.device_ns is not None:
            spent_ns = _counted_ns(report.device_ns, standing.device_ns, window_ns)
        # No faster than time passes, and rather too late than too early: then it also leaves the window too late.
        since_ns = min(max(last_ns, now_ns - spent_ns), now_ns - 1)
        seat.usage = window.add(seat.usage, since_ns, now_ns, spent_ns, window_ns)
        if seat.rank == 0:
            stolen_ns, seat.stolen_ns = _counted_ns(report.stolen_ns, standing.stolen_ns, window_ns), report.stolen_ns
            seat.stolen = window.add(seat.stolen, min(last_ns, now_ns - 1), now_ns, stolen_ns, window_ns)
        if seat.limit_milli < 1000:
            seat.tokens_ns += elapsed_ns * seat.limit_milli // 1000 - spent_ns


def _counted_ns(counter_ns: int, before_ns: int | None, window_ns: int) -> int:
    """Return by how much a client's counter has grown: nothing before the first report, at most a window's length."""
    return 0 if before_ns is None else min(max(counter_ns - before_ns, 0), window_ns)


def end_drains(seats: list[Seat], state: State, now_ns: int) -> None:
    """Turn drains that have ended, or have taken too long, into stops; learn from them how much may be in flight."""
    tuning = state.tuning
    for seat in seats:
        if seat.overrun:
            seat.overrun = not seat.drained
        elif seat.state is LeaseState.DRAIN:
            took_ns = now_ns - seat.lease_since_ns
            if not seat.drained and took_ns < tuning.drain_timeout_ns:
                continue
            seat.overrun = not seat.drained
            # One submission that was nearly done tells little, so the longest counts, and is forgotten slowly.
            each_ns = took_ns // max(1, seat.tenant.standing.lease.draining)
            seat.submission_ns = max(1, each_ns, seat.submission_ns * 15 // 16)
            seat.enter(LeaseState.STOP, now_ns)


def in_flight_cap(seat: Seat, state: State) -> int:
    """Return how many submissions drain within the target, as far as is known."""
    tuning = state.tuning
    if not seat.submission_ns:
        return tuning.in_flight_cap
    return max(1, min(tuning.highest_cap, tuning.drain_target_ns // seat.submission_ns))
