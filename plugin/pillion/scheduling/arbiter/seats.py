"""One tenant during one decision: the sheet that the rules write on in turn. It never leaves `decide`."""

from __future__ import annotations

from pillion.scheduling.arbiter.terms import RANK, LeaseState, Residence, State, Tenant


class Seat:
    """A tenant's facts, made safe to calculate with, and what has been decided about it so far.

    Attributes:
        tenant: The tenant as given.
        id: Its id.
        rank: Its tier, 0 for high.
        weight: Its part among peers, in thousandths.
        limit_milli: Its cap.
        wants: Has work waiting or on the GPU.
        drained: Nothing of it is on the GPU, as far as its gate says.
        state: The lease's state; the rules change it.
        lease_since_ns: Since when.
        overrun: Its last drain has not ended in time.
        blocked: Must not run now: over its limit, without its memory, or on its way out.
        contends: Has work, and may have the lease: known once everything that blocks has been looked at.
        turn_end_ns: When its turn ends; None while nobody waits for it to end.
        lingers: Holds the lease without work while others wait.

    The others are the accounts of `Standing` under the same names, brought up to now.
    """

    __slots__ = (
        "blocked", "contends", "device_ns", "drained", "id", "lease_since_ns", "limit_milli", "lingers", "overrun",
        "paced", "rank", "since_ns", "state", "stolen", "stolen_ns", "submission_ns", "tenant", "tokens_ns",
        "turn_end_ns", "usage", "virtual_ns", "wants", "weight",
    )  # fmt: skip

    def __init__(self, tenant: Tenant, guest_weight_milli: int) -> None:
        policy, report, standing = tenant.policy, tenant.report, tenant.standing
        lease = standing.lease
        self.tenant = tenant
        self.id = tenant.id
        self.rank = RANK[policy.tier]
        self.weight = policy.share_milli or guest_weight_milli
        self.limit_milli = policy.limit_milli
        self.wants = bool(report.runnable) or report.in_flight > 0
        self.blocked = tenant.residence is not Residence.RESIDENT
        self.state = lease.state
        self.lease_since_ns = lease.since_ns
        self.overrun = lease.overrun
        self.drained = report.in_flight <= 0 and report.acknowledged_epoch >= lease.epoch
        self.usage = standing.usage
        self.device_ns = standing.device_ns
        self.stolen_ns = standing.stolen_ns
        self.stolen = standing.stolen
        self.virtual_ns = standing.virtual_ns
        self.tokens_ns = standing.tokens_ns
        self.paced = standing.paced
        self.since_ns = standing.since_ns
        self.submission_ns = standing.submission_ns
        self.turn_end_ns: int | None = None
        self.contends = False
        self.lingers = False

    def enter(self, state: LeaseState, now_ns: int) -> None:
        """Change the lease's state, and note when."""
        if self.state is not state:
            self.state = state
            self.lease_since_ns = now_ns


def take_seats(state: State) -> list[Seat]:
    """Return a seat for each tenant, in the order of the state."""
    guest_weight_milli = state.tuning.guest_weight_milli
    return [Seat(tenant, guest_weight_milli) for tenant in state.tenants]
