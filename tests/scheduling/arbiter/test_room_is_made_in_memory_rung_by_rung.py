"""When a higher step needs GPU memory that lower ones hold: what is done to whom, in which order, and how it is undone.

Each test walks one GPU of 80 GiB through the ladder; `Agent` does what the arbiter says, or fails to.
"""

import pytest

from pillion.scheduling.arbiter import Action, ActionKind, Gpu, LeaseState, Report, Residence, State, Tenant, decide

MS = 1_000_000
GIB = 1 << 30
LOCK_TIMEOUT = 1000 * MS
OUTCOME = {
    ActionKind.LOCK: Residence.LOCKED,
    ActionKind.CHECKPOINT: Residence.ON_HOST,
    ActionKind.RESTORE: Residence.RESIDENT,
    ActionKind.RELEASE: Residence.RESIDENT,
    ActionKind.FREEZE: Residence.FROZEN,
}


class Agent:
    """Asks every 100 ms and carries actions out by the next time; those in `fails` fail."""

    def __init__(self, *tenants, host_gib=100, fails=()):
        self.state = State(Gpu(80 * GIB, host_memory_bytes=host_gib * GIB), tenants)
        self.now_ms, self.fails, self.log, self.decision = 0, fails, [], None

    def change(self, name, **fields):
        report = fields.pop("report", {})
        self.state = self.state._replace(
            tenants=tuple(
                tenant._replace(report=tenant.report._replace(**report), **fields) if tenant.id == name else tenant
                for tenant in self.state.tenants
            )
        )

    def step(self, times=1):
        for _ in range(times):
            for tenant in self.state.tenants:
                if tenant.pending is not None:
                    self._carry_out(tenant, tenant.pending)
            for tenant in self.state.tenants:
                self.change(tenant.id, report={"acknowledged_epoch": tenant.standing.lease.epoch})
            self.decision = decide(self.state, self.now_ms * MS)
            self.state = self.decision.state
            for action in self.decision.actions:
                self.log.append((self.now_ms, action.tenant_id, action.kind.value))
                self.change(action.tenant_id, pending=action.kind)
            self.now_ms += 100
        return self

    def _carry_out(self, tenant, kind):
        if (tenant.id, kind) in self.fails:
            self.change(tenant.id, pending=None, failed=tenant.failed | {kind})
        elif kind is ActionKind.EVICT:
            self.state = self.state.left(tenant.id)
        else:
            self.change(tenant.id, pending=None, residence=OUTCOME[kind], residence_since_ns=self.now_ms * MS)
            if kind is ActionKind.CHECKPOINT:
                host = self.state.gpu.host_memory_bytes - tenant.report.memory_bytes
                self.state = self.state._replace(gpu=self.state.gpu._replace(host_memory_bytes=host))


def guest(policy, name, gib, on_preempt, *, registered_ms=0, checkpointable=True, in_flight=0, tier="low"):
    return Tenant(
        name, policy(tier, share=100, memory=gib, on_preempt=on_preempt), registered_ns=registered_ms * MS,
        checkpointable=checkpointable,
        report=Report(runnable=True, in_flight=in_flight, memory_bytes=gib * GIB),
    )  # fmt: skip


def needy(policy, gib, has_gib=0):
    return Tenant(
        "h", policy("high", share=500, memory=gib),
        report=Report(memory_bytes=has_gib * GIB, memory_wanted_bytes=(gib - has_gib) * GIB),
    )  # fmt: skip


def test_suspend_goes_gate_then_lock_then_checkpoint_and_comes_back_when_there_is_room(policy):
    agent = Agent(guest(policy, "g", 60, "suspend"), needy(policy, 40)).step()
    # The guest never ran: its gate is closed already, and the lock can follow.
    assert agent.decision.actions == (Action("g", ActionKind.LOCK, LOCK_TIMEOUT),)
    agent.step(2)
    assert agent.log == [(0, "g", "lock"), (100, "g", "checkpoint")]
    agent.change("h", report={"memory_bytes": 40 * GIB, "memory_wanted_bytes": 0})
    agent.step(100)
    assert agent.log == [(0, "g", "lock"), (100, "g", "checkpoint")]
    agent.change("h", report={"memory_bytes": 0})
    agent.step(2)
    assert agent.log[2:] == [(10_300, "g", "restore")]
    assert agent.decision.grant("g").state is LeaseState.RUN


def test_the_gate_is_closed_and_drained_before_anything_is_locked(policy):
    agent = Agent(guest(policy, "g", 60, "suspend"), needy(policy, 40)._replace(report=Report())).step()
    assert agent.decision.grant("g").state is LeaseState.RUN
    agent.change("h", report={"memory_wanted_bytes": 40 * GIB})
    agent.change("g", report={"in_flight": 1})
    agent.step()
    assert agent.decision.grant("g").state is LeaseState.DRAIN
    assert agent.log == []
    agent.change("g", report={"in_flight": 0})
    agent.step()
    assert agent.log == [(200, "g", "lock")]


def test_a_suspended_step_stays_suspended_for_five_seconds_so_that_memory_does_not_go_to_and_fro(policy):
    agent = Agent(guest(policy, "g", 60, "suspend"), needy(policy, 40)).step(3)
    agent.change("h", report={"memory_bytes": 0, "memory_wanted_bytes": 0})
    agent.step()
    assert agent.decision.wake_at_ns == 5_200 * MS
    agent.step(60)
    assert agent.log == [(0, "g", "lock"), (100, "g", "checkpoint"), (5_200, "g", "restore")]


@pytest.mark.parametrize(
    ("why", "expected"),
    [
        ({"host_gib": 59}, [(0, "g", "evict")]),
        ({"checkpointable": False}, [(0, "g", "evict")]),
        ({"fails": {("g", ActionKind.LOCK)}}, [(0, "g", "lock"), (100, "g", "evict")]),
        ({"fails": {("g", ActionKind.CHECKPOINT)}}, [(0, "g", "lock"), (100, "g", "checkpoint"), (200, "g", "evict")]),
    ],
)  # fmt: skip
def test_where_a_rung_does_not_hold_the_next_one_is_taken(policy, why, expected):
    tenant = guest(policy, "g", 60, "suspend", checkpointable=why.get("checkpointable", True))
    agent = Agent(tenant, needy(policy, 40), host_gib=why.get("host_gib", 100), fails=why.get("fails", ()))
    assert agent.step(5).log == expected


def test_evict_ends_the_pod_without_moving_its_memory(policy):
    assert Agent(guest(policy, "g", 60, "evict"), needy(policy, 40)).step(5).log == [(0, "g", "evict")]


def test_wait_keeps_its_memory_and_the_high_step_is_told_that_there_is_none(policy):
    agent = Agent(guest(policy, "g", 60, "wait"), needy(policy, 40)).step()
    assert (agent.decision.actions, agent.decision.unmet) == ((), ("h",))


def test_nobody_is_moved_in_vain(policy):
    # 70 are held by one that waits: the 5 of the other would not do for 40.
    agent = Agent(guest(policy, "w", 70, "wait"), guest(policy, "g", 5, "evict"), needy(policy, 40)).step(3)
    assert (agent.log, agent.decision.unmet) == ([], ("h",))


def test_only_as_many_as_needed_go_lowest_tier_first_then_the_newest(policy):
    # 80 - 70 = 10 are free and 40 are wanted. The newest guest gives 20, the older one 20: enough. n keeps its 30.
    agent = Agent(
        guest(policy, "n", 30, "suspend", tier="normal", registered_ms=9),
        guest(policy, "old", 20, "suspend", registered_ms=1),
        guest(policy, "new", 20, "suspend", registered_ms=2),
        needy(policy, 40),
    )
    assert agent.step(4).log == [
        (0, "new", "lock"),
        (0, "old", "lock"),
        (100, "new", "checkpoint"),
        (100, "old", "checkpoint"),
    ]


def test_two_moves_at_once_share_the_host_memory(policy):
    agent = Agent(guest(policy, "a", 35, "suspend"), guest(policy, "b", 35, "suspend"), needy(policy, 75), host_gib=50)
    assert agent.step(3).log == [(0, "a", "lock"), (0, "b", "evict"), (100, "a", "checkpoint")]


def test_when_the_need_passes_before_the_move_the_lock_is_released(policy):
    agent = Agent(guest(policy, "g", 60, "suspend"), needy(policy, 40)).step()
    agent.change("h", report={"memory_wanted_bytes": 0})
    agent.step(3)
    assert agent.log == [(0, "g", "lock"), (100, "g", "release")]
    assert agent.decision.grant("g").state is LeaseState.RUN


def test_peers_do_not_move_each_other(policy):
    other = guest(policy, "g", 60, "evict", tier="normal")
    want = needy(policy, 40)._replace(policy=policy(share=500, memory=40))
    assert Agent(other, want).step(3).decision.unmet == ("h",)


def test_more_than_the_quota_is_no_need(policy):
    want = needy(policy, 10)._replace(report=Report(memory_bytes=10 * GIB, memory_wanted_bytes=1 << 60))
    agent = Agent(guest(policy, "g", 70, "evict"), want).step(3)
    assert (agent.log, agent.decision.unmet) == ([], ())


def test_several_come_back_highest_tier_first_as_far_as_there_is_room(policy):
    agent = Agent(
        guest(policy, "g", 30, "suspend"), guest(policy, "n", 30, "suspend", tier="normal"), needy(policy, 80)
    ).step(3)  # fmt: skip
    agent.change("h", report={"memory_bytes": 45 * GIB, "memory_wanted_bytes": 0})
    agent.step(60)
    assert agent.log[4:] == [(5_200, "n", "restore")]


def test_a_process_that_ignores_its_gate_is_locked_or_frozen_and_released_when_it_has_drained(policy):
    # Revoked at 100 ms, 100 ms to drain, and then 5 s until it is enforced.
    for checkpointable, fails, kinds in (
        (True, (), ["lock"]),
        (False, (), ["freeze"]),
        (True, {("g", ActionKind.LOCK)}, ["lock", "freeze"]),
    ):
        agent = Agent(
            guest(policy, "g", 5, "wait", in_flight=1, checkpointable=checkpointable),
            Tenant("n", policy(share=500)), fails=fails,
        ).step()  # fmt: skip
        agent.change("n", report={"runnable": True})
        agent.step(2)
        assert agent.decision.grant("g").state is LeaseState.STOP
        assert agent.decision.grant("n").state is LeaseState.RUN
        agent.step(60)
        assert [kind for _, _, kind in agent.log] == kinds
        assert agent.log[0] == (5_200, "g", kinds[0])
        agent.change("g", report={"in_flight": 0})
        agent.step()
        assert agent.log[-1] == (6_300, "g", "release")
