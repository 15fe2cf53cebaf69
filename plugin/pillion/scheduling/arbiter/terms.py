"""What the arbiter is told and what it answers.

Everything is a named tuple: as frozen as a dataclass, and cheap enough to be built anew for every decision.
Times are nanoseconds of one monotonic clock, the caller's; a fact that a client reports about itself is in `Report`
and nowhere else, because the arbiter must not believe it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from pillion.policy import Policy, Tier
from pillion.scheduling.arbiter.window import Usage

NEVER_NS = (1 << 63) - 1
"""A time that does not come: the deadline of a lease that does not lapse. The largest signed 64-bit number."""

UNCAPPED = 0
"""An in-flight cap of none."""

RANK: dict[Tier, int] = {Tier.HIGH: 0, Tier.NORMAL: 1, Tier.LOW: 2}
"""Tiers in the order in which they go."""


class LeaseState(str, Enum):
    """What a gate may do."""

    RUN = "run"
    """Submit."""
    DRAIN = "drain"
    """Submit nothing more; what is on the GPU runs out."""
    STOP = "stop"
    """Submit nothing; nothing is on the GPU."""


class ActionKind(str, Enum):
    """What the agent does to a process beyond its gate, in the order of the ladder."""

    LOCK = "lock"
    """Hold its driver calls (checkpoint lock), with a time-out."""
    CHECKPOINT = "checkpoint"
    """Move its GPU memory to the host."""
    RESTORE = "restore"
    """Move it back and let its driver calls go on."""
    RELEASE = "release"
    """Undo a lock or a freeze; nothing was moved."""
    FREEZE = "freeze"
    """Stop its CPU threads (cgroup freezer): the last resort for a process that ignores its gate."""
    EVICT = "evict"
    """End its pod, so that the step is retried."""


class Residence(str, Enum):
    """Where a tenant's GPU memory is and what holds its process. Known by the agent, which did it."""

    RESIDENT = "resident"
    LOCKED = "locked"
    FROZEN = "frozen"
    ON_HOST = "on-host"


class Gpu(NamedTuple):
    """One device, and the host memory that its tenants could be moved to.

    Attributes:
        memory_bytes: What tenants may allocate in sum.
        switch_cost_ns: What it costs to go from one process's work to another's.
        host_memory_bytes: Host memory that checkpoints may still take.
    """

    memory_bytes: int
    switch_cost_ns: int = 50_000
    host_memory_bytes: int = 0


class Report(NamedTuple):
    """What a client's page says. Any value may be a lie; a lie may hurt none but its author.

    Attributes:
        runnable: Has work that waits at the gate or is on the GPU.
        in_flight: Submissions that may not have left the GPU yet.
        acknowledged_epoch: The newest lease that the gate has seen. The caller sets it to the lease's own epoch for a
            client that cannot be inside a submission, such as an idle one.
        device_ns: Device time used since registration, or None where nobody counts it.
        stolen_ns: Device time it has been kept waiting by lower tiers since registration; of use on high only.
        memory_bytes: GPU memory allocated.
        memory_wanted_bytes: Further GPU memory that it waits for.
    """

    runnable: bool = False
    in_flight: int = 0
    acknowledged_epoch: int = 0
    device_ns: int | None = None
    stolen_ns: int = 0
    memory_bytes: int = 0
    memory_wanted_bytes: int = 0


class Lease(NamedTuple):
    """The lease as last granted.

    Attributes:
        epoch: Counts this tenant's changes of `state`.
        state: What the gate may do.
        since_ns: When it entered that state.
        charged: Whether time now passes at this tenant's expense.
        draining: Submissions that were in flight when it was revoked.
        overrun: Its drain did not end in time; it gets no lease before it has drained.
    """

    epoch: int = 0
    state: LeaseState = LeaseState.STOP
    since_ns: int = 0
    charged: bool = False
    draining: int = 0
    overrun: bool = False


class Standing(NamedTuple):
    """What the arbiter remembers about a tenant; the caller hands it back unread.

    Attributes:
        lease: As last granted.
        usage: Device time used, over the window.
        stolen: Device time stolen from it, over the window.
        virtual_ns: Time held, divided by weight: who has least among the waiting peers is next.
        contending: Whether it had work, and might have had the lease, at the last decision.
        since_ns: When that last changed.
        tokens_ns: How long it may still go faster than its limit; see `limits`.
        paced: Waits for its tokens.
        device_ns: How far the report's counter has been accounted for; None before the first report.
        stolen_ns: Likewise.
        submission_ns: How long one of its submissions holds up a drain, as learnt; 0 before its first drain.
    """

    lease: Lease = Lease()
    usage: Usage = Usage()
    stolen: Usage = Usage()
    virtual_ns: int = 0
    contending: bool = False
    since_ns: int = 0
    tokens_ns: int = 0
    paced: bool = False
    device_ns: int | None = None
    stolen_ns: int | None = None
    submission_ns: int = 0


class Tenant(NamedTuple):
    """One process that shares the GPU.

    Attributes:
        id: Unique on this GPU; breaks ties.
        policy: What it is entitled to.
        registered_ns: When it came.
        report: What its page says now.
        checkpointable: Whether the driver can checkpoint it.
        residence: Where its memory is.
        residence_since_ns: Since when; for a restore that failed, when it failed.
        pending: The action under way on it.
        failed: Actions that failed and are not tried again until the caller forgets them.
        standing: The arbiter's memory of it. An agent that adopts a running client begins with the lease in its page.
    """

    id: str
    policy: Policy
    registered_ns: int = 0
    report: Report = Report()
    checkpointable: bool = False
    residence: Residence = Residence.RESIDENT
    residence_since_ns: int = 0
    pending: ActionKind | None = None
    failed: frozenset[ActionKind] = frozenset()
    standing: Standing = Standing()


class Tuning(NamedTuple):
    """The arbiter's constants; `docs/arbiter.md` has the reasons.

    Attributes:
        window_ns: Over which shares, limits and slowdowns are measured.
        quantum_ns: How long a holder keeps the lease while many peers wait.
        shortest_quantum_ns: And at least, however few wait.
        quantum_switches: A quantum is at least this many switch costs long.
        longest_round_ns: However many wait, each has its turn about once in this, so that windows hold whole rounds.
        longest_debt_ns: Who held too long waits for at most this before its next turn.
        linger_ns: How long an idle holder keeps the lease while others wait.
        drain_timeout_ns: After this a drain has failed and the next one gets the lease.
        unresponsive_ns: After this, a drain that has failed is enforced from outside the process.
        lease_ns: A lease that nobody else waits for lapses after this unless renewed.
        guest_weight_milli: The weight of a guest that said no share.
        in_flight_cap: For a tenant that has never drained.
        highest_cap: However fast it drains.
        drain_target_ns: Caps are learnt so that a drain takes at most about this.
        lock_timeout_ns: For checkpoint locks.
        suspension_ns: A suspended tenant stays so for at least this.
        high_keeps_to_share: Whether a high step is held to its share while a normal one has work. By default it is not:
            a high step waits for nobody below it, and `limit` is what keeps room for normal steps.
    """

    window_ns: int = 1_000_000_000
    quantum_ns: int = 30_000_000
    shortest_quantum_ns: int = 3_000_000
    quantum_switches: int = 60
    longest_round_ns: int = 250_000_000
    longest_debt_ns: int = 10_000_000_000
    linger_ns: int = 1_000_000
    drain_timeout_ns: int = 100_000_000
    unresponsive_ns: int = 5_000_000_000
    lease_ns: int = 1_000_000_000
    guest_weight_milli: int = 100
    in_flight_cap: int = 8
    highest_cap: int = 16
    drain_target_ns: int = 2_000_000
    lock_timeout_ns: int = 1_000_000_000
    suspension_ns: int = 5_000_000_000
    high_keeps_to_share: bool = False


class State(NamedTuple):
    """One GPU and its tenants, as `decide` is told about them.

    Attributes:
        gpu: The device.
        tenants: In any order; the answer does not depend on it.
        tuning: The constants.
        decided_ns: When `decide` last looked; None before the first time.
        virtual_ns: Per tier, where its queue stands: a newcomer starts here.
    """

    gpu: Gpu
    tenants: tuple[Tenant, ...] = ()
    tuning: Tuning = Tuning()
    decided_ns: int | None = None
    virtual_ns: tuple[int, int, int] = (0, 0, 0)

    def joined(self, tenant: Tenant) -> State:
        """Return the state with one more tenant."""
        return self._replace(tenants=(*self.tenants, tenant))

    def left(self, tenant_id: str) -> State:
        """Return the state without a tenant, whether or not it was there."""
        return self._replace(tenants=tuple(tenant for tenant in self.tenants if tenant.id != tenant_id))

    def reported(self, reports: Mapping[str, Report]) -> State:
        """Return the state with what some tenants' pages say now."""
        return self._replace(
            tenants=tuple(
                tenant._replace(report=reports[tenant.id]) if tenant.id in reports else tenant
                for tenant in self.tenants
            )
        )


class Grant(NamedTuple):
    """What the agent writes into one tenant's page.

    Attributes:
        tenant_id: Whose.
        epoch: Of the lease; it changes when `state` does.
        state: What the gate may do.
        deadline_ns: When a RUN lease lapses by itself, which is also when its turn ends. 0 without a lease.
        in_flight_cap: Most submissions on the GPU at a time, or `UNCAPPED`.
        budget_ppm: Rate, in parts per million of wall time, at which it earns credit to delay high steps; None where
            there is no high step to be careful of.
        max_stall_ns: The longest delay that one submission may cause a high step; None like `budget_ppm`.
        quantum_ns: Length of its turns among those who have work now.
    """

    tenant_id: str
    epoch: int
    state: LeaseState
    deadline_ns: int
    in_flight_cap: int
    budget_ppm: int | None
    max_stall_ns: int | None
    quantum_ns: int


class Action(NamedTuple):
    """One step of the ladder, to be started now. The caller sets `Tenant.pending` while it lasts."""

    tenant_id: str
    kind: ActionKind
    timeout_ns: int = 0


class Decision(NamedTuple):
    """The answer.

    Attributes:
        grants: One per tenant, in the order of the state.
        actions: What to start, beyond the gates.
        unmet: Tenants that wait for memory which no rung of the ladder can free.
        wake_at_ns: When `decide` must be called again if nothing is reported before; later than now.
        state: The state for the next call: as given, with the leases and accounts as decided.
    """

    grants: tuple[Grant, ...]
    actions: tuple[Action, ...]
    unmet: tuple[str, ...]
    wake_at_ns: int
    state: State

    def grant(self, tenant_id: str) -> Grant:
        """Return one tenant's grant.

        Raises:
            KeyError: The state had no such tenant.
        """
        for grant in self.grants:
            if grant.tenant_id == tenant_id:
                return grant
        raise KeyError(tenant_id)


def running(grants: Iterable[Grant]) -> tuple[str, ...]:
    """Return who may submit."""
    return tuple(grant.tenant_id for grant in grants if grant.state is LeaseState.RUN)
