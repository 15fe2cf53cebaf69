"""The arbiter's one question: who may submit to this GPU now?"""

from __future__ import annotations

from pillion.scheduling.arbiter import accounts, budgets, ladder, limits, turns
from pillion.scheduling.arbiter.seats import Seat, take_seats
from pillion.scheduling.arbiter.terms import (
    NEVER_NS,
    UNCAPPED,
    Decision,
    Grant,
    Lease,
    LeaseState,
    Standing,
    State,
    Tenant,
)


def decide(state: State, now_ns: int) -> Decision:
    """Decide who may submit to one GPU.

    Same state, same time, same answer: nothing else goes into it, and the order of the tenants does not matter.

    Args:
        state: As returned by the last decision, with what has changed since: reports, tenants that came or went, the
            outcome of actions.
        now_ns: The time. It may jump: a clock that was set back ages nothing, and a gap is charged for one window at
        most.

    Returns:
        Grants, actions, when to ask again, and the state for then. Ask earlier when a report changes.
    """
    state = accounts.set_back(state, now_ns)
    seats = take_seats(state)
    limits.hold_to_share(seats, state)
    accounts.charge(seats, state, now_ns)
    accounts.end_drains(seats, state, now_ns)
    wakes = [limits.hold_back(seats, state, now_ns)]
    plan = ladder.climb(seats, state, now_ns)
    marks = turns.queue_up(seats, state, now_ns)
    wakes += [plan.wake_ns, turns.elect_high(seats, state, now_ns), turns.elect(seats, state, now_ns)]
    wakes += [seat.lease_since_ns + state.tuning.drain_timeout_ns for seat in seats if seat.state is LeaseState.DRAIN]
    grants = _grants(seats, state, now_ns)
    # A lease that nobody waits for is renewed at half its time.
    wakes += [now_ns + state.tuning.lease_ns // 2 for seat in seats if seat.state is LeaseState.RUN and seat.rank > 0]
    return Decision(
        grants=grants,
        actions=tuple(plan.actions),
        unmet=tuple(plan.unmet),
        wake_at_ns=max(now_ns + turns.SLACK_NS, min(wakes)),
        state=state._replace(tenants=tuple(_remember(seat) for seat in seats), decided_ns=now_ns, virtual_ns=marks),
    )


def _grants(seats: list[Seat], state: State, now_ns: int) -> tuple[Grant, ...]:
    tuning = state.tuning
    care = budgets.care(seats, state, now_ns)
    weights, peers = [0, 0, 0], [0, 0, 0]
    for seat in seats:
        if seat.contends:
            weights[seat.rank] += seat.weight
            peers[seat.rank] += 1
    grants = []
    for seat in seats:
        runs, high = seat.state is LeaseState.RUN, seat.rank == 0
        renewed_ns = now_ns + tuning.lease_ns
        lapses_ns = renewed_ns if seat.turn_end_ns is None else min(seat.turn_end_ns, renewed_ns)
        beside_high = care is not None and not high
        grants.append(
            Grant(
                tenant_id=seat.id,
                epoch=_epoch(seat),
                state=seat.state,
                deadline_ns=0 if not runs else NEVER_NS if high else lapses_ns,
                in_flight_cap=UNCAPPED if high else accounts.in_flight_cap(seat, state),
                budget_ppm=(care.budget_ppm if runs else 0) if care is not None and beside_high else None,
                max_stall_ns=care.max_stall_ns if care is not None and beside_high else None,
                quantum_ns=turns.quantum_ns(seat.weight, weights[seat.rank], peers[seat.rank], state),
            )
        )
    return tuple(grants)


def _epoch(seat: Seat) -> int:
    lease = seat.tenant.standing.lease
    return lease.epoch + (seat.state is not lease.state)


def _remember(seat: Seat) -> Tenant:
    tenant, report = seat.tenant, seat.tenant.report
    runs = seat.state is LeaseState.RUN
    before = tenant.standing.lease
    revoked = seat.state is LeaseState.DRAIN and before.state is not LeaseState.DRAIN
    lease = Lease(
        epoch=_epoch(seat),
        state=seat.state,
        since_ns=seat.lease_since_ns,
        charged=(seat.wants or seat.lingers) if runs else seat.overrun or seat.state is LeaseState.DRAIN,
        draining=max(0, report.in_flight) if revoked else before.draining,
        overrun=seat.overrun,
    )
    standing = Standing(
        lease=lease,
        usage=seat.usage,
        stolen=seat.stolen,
        virtual_ns=seat.virtual_ns,
        contending=seat.contends,
        since_ns=seat.since_ns,
        tokens_ns=seat.tokens_ns,
        paced=seat.paced,
        device_ns=seat.device_ns,
        stolen_ns=seat.stolen_ns,
        submission_ns=seat.submission_ns,
    )
    return tenant._replace(standing=standing)
