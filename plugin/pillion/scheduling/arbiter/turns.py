"""Whose turn it is: tiers first, then peers in proportion to weight, one quantum at a time.

There are two leases to hold. High steps hold the first: all of them run, unless several have work, which then take
turns. Normal and low steps hold the second, one of them at a time, whether or not a high step is there: beside a high
step the gate admits the holder's work into its pauses, and two holders would each think the pause theirs alone.
"""

from __future__ import annotations

from pillion.scheduling.arbiter.seats import Seat
from pillion.scheduling.arbiter.terms import NEVER_NS, LeaseState, State, Tuning

SLACK_NS = 100_000
"""What would happen within this happens now, and nobody is woken sooner: being woken costs about as much."""


def queue_up(seats: list[Seat], state: State, now_ns: int) -> tuple[int, int, int]:
    """Give newcomers their places, and note who came when.

    A tenant that comes back gets no credit for the time it had no work or was at its limit, and keeps its debts.

    Returns:
        Where each tier's queue stands now.
    """
    least: list[int | None] = [None, None, None]
    weights = [0, 0, 0]
    for seat in seats:
        seat.contends = seat.wants and not seat.blocked and not seat.overrun
        weights[seat.rank] += seat.weight if seat.contends else 0
        if seat.contends and seat.tenant.standing.contending:
            first = least[seat.rank]
            least[seat.rank] = seat.virtual_ns if first is None else min(first, seat.virtual_ns)
    marks = [max(mark, mark if first is None else first) for mark, first in zip(state.virtual_ns, least, strict=True)]
    for seat in seats:
        if seat.contends != seat.tenant.standing.contending:
            seat.since_ns = now_ns
            if seat.contends:
                seat.virtual_ns = max(seat.virtual_ns, marks[seat.rank])
        if seat.contends:
            longest = state.tuning.longest_debt_ns * 1000 // weights[seat.rank]  # by so much the queue moves on in it
            seat.virtual_ns = min(seat.virtual_ns, marks[seat.rank] + longest)
    return marks[0], marks[1], marks[2]


def shortest_ns(state: State) -> int:
    """Return the shortest quantum of this GPU: switching costs at most one part in `quantum_switches` of it."""
    return max(state.tuning.shortest_quantum_ns, state.tuning.quantum_switches * state.gpu.switch_cost_ns)


def quantum_ns(weight: int, weights: int, peers: int, state: State) -> int:
    """Return how long a tenant holds the lease at a time: its part of a round that grows with the number of peers."""
    tuning = state.tuning
    if peers < 2:
        return tuning.quantum_ns
    round_ns = min(tuning.quantum_ns * (peers - 1), tuning.longest_round_ns)
    part_ns = round_ns * weight // weights
    return max(min(tuning.quantum_ns, part_ns), min(tuning.quantum_ns, shortest_ns(state)))


def elect_high(seats: list[Seat], state: State, now_ns: int) -> int:
    """Decide the lease of the high steps.

    Returns:
        When this may change by itself.
    """
    high = [seat for seat in seats if seat.rank == 0]
    rivals = [seat for seat in high if seat.contends]
    wake_ns = NEVER_NS
    chosen: Seat | None = None
    if len(rivals) > 1:
        holder = min((seat for seat in rivals if seat.state is LeaseState.RUN), key=_first, default=None)
        chosen, wake_ns = _elect(holder, rivals, state, now_ns)
        if chosen is not holder and chosen.state is LeaseState.RUN:
            chosen.lease_since_ns = now_ns  # it could run all the time; its turn begins now
    for seat in high:
        if seat.blocked or seat.overrun or (chosen is not None and seat.wants and seat is not chosen):
            _revoke(seat, now_ns)
    draining = [seat for seat in high if seat.state is LeaseState.DRAIN]
    for seat in high:
        if seat.blocked or seat.overrun or (chosen is not None and seat.wants and seat is not chosen):
            continue
        if not seat.wants or not any(other is not seat for other in draining):
            seat.enter(LeaseState.RUN, now_ns)
    return wake_ns


def elect(seats: list[Seat], state: State, now_ns: int) -> int:
    """Decide the lease of the normal and low steps.

    Returns:
        When this may change by itself.
    """
    lower = [seat for seat in seats if seat.rank > 0]
    holder = min(
        (seat for seat in lower if seat.state is LeaseState.RUN and not seat.blocked), key=_first, default=None
    )
    rivals = [seat for seat in lower if seat.contends]
    for seat in lower:
        if seat is not holder:
            _revoke(seat, now_ns)
    if not rivals:
        return NEVER_NS
    chosen, wake_ns = _elect(holder, rivals, state, now_ns)
    if holder is not None and chosen is not holder:
        _revoke(holder, now_ns)
    if not any(seat.state is LeaseState.DRAIN and seat is not chosen for seat in lower):
        chosen.enter(LeaseState.RUN, now_ns)
    return wake_ns


def _elect(holder: Seat | None, rivals: list[Seat], state: State, now_ns: int) -> tuple[Seat, int]:
    """Return who has the turn, the holder or a rival, and when that must be looked at again."""
    best = min(seat.rank for seat in rivals)
    peers = [seat for seat in rivals if seat.rank == best]
    if holder is not None and holder.rank <= best:
        others = [seat for seat in peers if seat is not holder]
        if not holder.wants:
            if _lingers(holder, state.tuning, now_ns):
                holder.lingers = True
                return holder, holder.since_ns + state.tuning.linger_ns
        elif holder.rank < best or not others:
            return holder, NEVER_NS
        else:
            end_ns = _turn_end_ns(holder, holder.lease_since_ns, others, state, now_ns)
            if end_ns > now_ns + SLACK_NS:
                holder.turn_end_ns = end_ns
                return holder, end_ns
            peers = others
    chosen = min(peers, key=_next)
    others = [seat for seat in peers if seat is not chosen]
    if holder is not None and holder.contends and holder.rank == best and holder is not chosen:
        others.append(holder)
    if not others:
        return chosen, NEVER_NS
    chosen.turn_end_ns = _turn_end_ns(chosen, now_ns, others, state, now_ns)
    return chosen, chosen.turn_end_ns


def _turn_end_ns(seat: Seat, start_ns: int, others: list[Seat], state: State, now_ns: int) -> int:
    """Return when a turn that began at `start_ns` ends, if nobody comes or goes.

    After a quantum, and not before the tenant has caught up with the others. Who comes back to work while others are
    busy need not wait for a whole quantum, but still has to be next.
    """
    weights = seat.weight + sum(other.weight for other in others)
    quantum_end_ns = start_ns + quantum_ns(seat.weight, weights, len(others) + 1, state)
    end_ns = max(quantum_end_ns, _level_at_ns(seat, others, now_ns))
    fresh = [other for other in others if other.state is LeaseState.STOP and other.since_ns >= other.lease_since_ns]
    if fresh:
        end_ns = min(end_ns, max(start_ns + shortest_ns(state), _level_at_ns(seat, fresh, now_ns)))
    return end_ns


def _level_at_ns(seat: Seat, others: list[Seat], now_ns: int) -> int:
    """Return when a tenant that runs from now on will have had as much, by weight, as the one that had least."""
    ahead_ns = (min(other.virtual_ns for other in others) - seat.virtual_ns) * seat.weight
    return now_ns - (-ahead_ns // 1000)


def _lingers(seat: Seat, tuning: Tuning, now_ns: int) -> bool:
    idle_ns = now_ns - seat.since_ns
    return seat.state is LeaseState.RUN and not seat.wants and not seat.blocked and idle_ns < tuning.linger_ns


def _revoke(seat: Seat, now_ns: int) -> None:
    if seat.state is LeaseState.RUN:
        seat.enter(LeaseState.DRAIN, now_ns)


def _next(seat: Seat) -> tuple[bool, int, int, str]:
    # Who has just been told to go does not come back before the others have had their turns.
    return seat.state is LeaseState.DRAIN, seat.virtual_ns, seat.since_ns, seat.id


def _first(seat: Seat) -> tuple[int, str]:
    return seat.since_ns, seat.id
