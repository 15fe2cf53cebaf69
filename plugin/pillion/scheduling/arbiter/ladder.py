"""What happens beyond the gate: making room in memory for higher tiers, giving it back, and enforcing revocations.

Rungs, each taken only when the one before it did not do: close the gate; lock the process's driver calls, with a
time-out; move its memory to the host, if the host has room and the driver can; end its pod, to be retried. `on-
preempt` says how far up a tenant may be taken: `wait` stays behind its gate, `suspend` goes up rung by rung, `evict`
is ended at once.
"""

from __future__ import annotations

from pillion.policy import OnPreempt
from pillion.scheduling.arbiter.seats import Seat
from pillion.scheduling.arbiter.terms import NEVER_NS, Action, ActionKind, LeaseState, Residence, State


class Plan:
    """What a decision will have started by its end.

    Attributes:
        actions: To be started.
        unmet: Who waits for memory that cannot be freed.
        wake_ns: When time alone changes something.
    """

    def __init__(self) -> None:
        self.actions: list[Action] = []
        self.unmet: list[str] = []
        self.wake_ns = NEVER_NS

    def start(self, seat: Seat, kind: ActionKind, timeout_ns: int = 0) -> None:
        """Start an action, unless one is under way on this tenant, or this one has failed before."""
        if seat.tenant.pending is None and kind not in seat.tenant.failed:
            self.actions.append(Action(seat.id, kind, timeout_ns))


def climb(seats: list[Seat], state: State, now_ns: int) -> Plan:
    """Decide the actions beyond the gates, and block the seats that they concern."""
    plan = Plan()
    if not _is_quiet(seats):
        victims = _make_room(seats, state, plan)
        for seat in seats:
            if seat.overrun:
                _enforce(seat, state, now_ns, plan)
            elif seat not in victims and seat.tenant.residence in (Residence.LOCKED, Residence.FROZEN):
                plan.start(seat, ActionKind.RELEASE)
        _give_back(seats, state, now_ns, plan)
    return plan


def _is_quiet(seats: list[Seat]) -> bool:
    """Whether nobody waits for memory or is anywhere on the ladder: nearly always."""
    return all(
        seat.tenant.report.memory_wanted_bytes <= 0 and seat.tenant.residence is Residence.RESIDENT and not seat.overrun
        for seat in seats
    )


def _quota_bytes(seat: Seat, state: State) -> int:
    policy = seat.tenant.policy
    return policy.memory.size_bytes if policy.memory else state.gpu.memory_bytes * (policy.share_milli or 0) // 1000


def _has_bytes(seat: Seat, state: State) -> int:
    return min(max(seat.tenant.report.memory_bytes, 0), _quota_bytes(seat, state))


def _lacks_bytes(seat: Seat, state: State) -> int:
    """Return what it waits for, within its quota: beyond that its gate refuses, as a smaller card would."""
    if seat.tenant.residence is Residence.ON_HOST:
        return 0
    wanted = max(seat.tenant.report.memory_wanted_bytes, 0)
    return min(wanted, _quota_bytes(seat, state) - _has_bytes(seat, state))


def _free_bytes(seats: list[Seat], state: State) -> int:
    resident = (seat for seat in seats if seat.tenant.residence is not Residence.ON_HOST)
    return state.gpu.memory_bytes - sum(_has_bytes(seat, state) for seat in resident)


def _make_room(seats: list[Seat], state: State, plan: Plan) -> list[Seat]:
    """Choose victims for those who wait for memory, highest tier first, and take each one rung further."""
    free, victims = _free_bytes(seats, state), []
    host_free = state.gpu.host_memory_bytes - sum(
        _has_bytes(seat, state) for seat in seats if seat.tenant.pending is ActionKind.CHECKPOINT
    )
    for needy in sorted((seat for seat in seats if _lacks_bytes(seat, state) > 0), key=_by_tier):
        lacks = _lacks_bytes(needy, state)
        candidates = [
            seat
            for seat in sorted(seats, key=_by_yield)
            if seat.rank > needy.rank and seat not in victims and _can_yield(seat) and _has_bytes(seat, state) > 0
        ]
        if free + sum(_has_bytes(seat, state) for seat in candidates) < lacks:
            plan.unmet.append(needy.id)
            continue
        free -= lacks
        for seat in candidates:
            if free >= 0:
                break
            free += _has_bytes(seat, state)
            victims.append(seat)
            if _take_up(seat, host_free, state, plan):
                host_free -= _has_bytes(seat, state)
    return victims


def _can_yield(seat: Seat) -> bool:
    tenant = seat.tenant
    movable = tenant.policy.on_preempt is not OnPreempt.WAIT and tenant.residence is not Residence.ON_HOST
    return movable and ActionKind.EVICT not in tenant.failed


def _take_up(seat: Seat, host_free: int, state: State, plan: Plan) -> bool:
    """Take a victim one rung up. Returns whether its memory will go to the host."""
    tenant = seat.tenant
    seat.blocked = True
    held = tenant.pending is not None or tenant.residence is not Residence.RESIDENT
    if not held and not (seat.state is LeaseState.STOP or seat.overrun):
        return False
    suspends = (
        tenant.policy.on_preempt is OnPreempt.SUSPEND
        and tenant.checkpointable
        and _has_bytes(seat, state) <= host_free
        and not tenant.failed & {ActionKind.LOCK, ActionKind.CHECKPOINT}
    )
    if not suspends:
        plan.start(seat, ActionKind.EVICT)
    elif tenant.residence is Residence.LOCKED:
        plan.start(seat, ActionKind.CHECKPOINT)
    else:
        plan.start(seat, ActionKind.LOCK, state.tuning.lock_timeout_ns)
    return suspends


def _enforce(seat: Seat, state: State, now_ns: int, plan: Plan) -> None:
    """Hold a process that goes on submitting although its lease is gone."""
    due_ns = seat.lease_since_ns + state.tuning.unresponsive_ns
    if now_ns < due_ns:
        plan.wake_ns = min(plan.wake_ns, due_ns)
    elif seat.tenant.residence is Residence.RESIDENT:
        can_lock = seat.tenant.checkpointable and ActionKind.LOCK not in seat.tenant.failed
        plan.start(seat, ActionKind.LOCK if can_lock else ActionKind.FREEZE, state.tuning.lock_timeout_ns)


def _give_back(seats: list[Seat], state: State, now_ns: int, plan: Plan) -> None:
    """Bring suspended tenants back into room that nobody waits for, highest tier first, longest suspended first."""
    away = [seat for seat in seats if seat.tenant.residence is Residence.ON_HOST]
    if not away or any(_lacks_bytes(seat, state) > 0 for seat in seats):
        return
    free = _free_bytes(seats, state)
    for seat in sorted(away, key=_by_absence):
        due_ns = seat.tenant.residence_since_ns + state.tuning.suspension_ns
        size = _has_bytes(seat, state)
        if size > free:
            continue
        free -= size
        if now_ns < due_ns:
            plan.wake_ns = min(plan.wake_ns, due_ns)
        else:
            plan.start(seat, ActionKind.RESTORE)


def _by_tier(seat: Seat) -> tuple[int, int, str]:
    return seat.rank, seat.tenant.registered_ns, seat.id


def _by_yield(seat: Seat) -> tuple[bool, int, int, str]:
    """Order victims: those already on the ladder, so that a choice is kept; then the lowest tier; then the newest."""
    on_ladder = seat.tenant.pending is not None or seat.tenant.residence is not Residence.RESIDENT
    return not on_ladder, -seat.rank, -seat.tenant.registered_ns, seat.id


def _by_absence(seat: Seat) -> tuple[int, int, str]:
    return seat.rank, seat.tenant.residence_since_ns, seat.id
