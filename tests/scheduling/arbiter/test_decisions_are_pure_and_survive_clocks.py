"""Same state, same time, same answer; and clocks that jump, a thousand tenants and steps that come and go are harmless."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from pillion.scheduling.arbiter import (
    Gpu,
    Lease,
    LeaseState,
    Report,
    Standing,
    State,
    Tenant,
    decide,
    running,
)

MS = 1_000_000
TIERS = ["high", "normal", "low"]
TENANTS = st.lists(
    st.tuples(
        st.sampled_from(TIERS), st.integers(10, 1000), st.integers(10, 1000), st.booleans(), st.integers(0, 3),
        st.integers(0, 30), st.sampled_from(["wait", "suspend", "evict"]),
    ),
    min_size=1, max_size=8,
)  # fmt: skip


def build(policy, tenants):
    return State(
        Gpu(40 << 30, host_memory_bytes=10 << 30),
        tuple(
            Tenant(
                f"s{number}", policy(tier, share=share, limit=max(share, limit), memory=16, on_preempt=on_preempt),
                registered_ns=number, checkpointable=runnable,
                report=Report(runnable, in_flight, 0, number * MS, 0, gib << 30, (30 - gib) << 30),
            )
            for number, (tier, share, limit, runnable, in_flight, gib, on_preempt) in enumerate(tenants)
        ),
    )  # fmt: skip


@settings(deadline=None)
@given(TENANTS, st.lists(st.integers(0, 200 * MS), max_size=6), st.randoms(use_true_random=False))
def test_the_same_question_has_the_same_answer_whatever_the_order_of_the_tenants(policy, tenants, gaps, shuffle):
    state, now = build(policy, tenants), 0
    for gap in gaps:
        now += gap
        state = decide(state, now).state
    mixed = list(state.tenants)
    shuffle.shuffle(mixed)
    first, again, other = decide(state, now), decide(state, now), decide(state._replace(tenants=tuple(mixed)), now)
    assert first == again
    assert sorted(first.grants) == sorted(other.grants)
    assert (sorted(first.actions), sorted(first.unmet)) == (sorted(other.actions), sorted(other.unmet))
    assert first.wake_at_ns == other.wake_at_ns


@settings(deadline=None)
@given(TENANTS, st.integers(0, 5000 * MS))
def test_asking_again_at_once_changes_nothing_but_what_was_waited_for(policy, tenants, now):
    decision = decide(build(policy, tenants), now)
    assert decide(decision.state, now).grants == decision.grants


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.integers(-(10**13), 10**13), st.integers(-10 * MS, 40 * MS)), min_size=1, max_size=15),
    st.integers(0, 1 << 62),
)
def test_after_any_jumps_of_the_clock_two_peers_share_as_before(policy, jumps, start):
    state = State(Gpu(80 << 30), (Tenant("a", policy(share=700)), Tenant("b", policy(share=300))))

    def ask(state, now):
        reports = {
            tenant.id: Report(
                runnable=True, in_flight=int(tenant.standing.lease.state is LeaseState.RUN),
                acknowledged_epoch=tenant.standing.lease.epoch,
            )
            for tenant in state.tenants
        }  # fmt: skip
        decision = decide(state.reported(reports), now)
        assert len(running(decision.grants)) <= 1
        assert decision.wake_at_ns > now
        return decision

    now = start
    for jump in jumps:
        now += jump
        state = ask(state, now).state
    # What was charged for the jumps is at most a window's worth to each, which is worked off in the next few windows.
    held, begin = {"a": 0, "b": 0}, now + 5000 * MS
    while now < begin + 1000 * MS:
        decision = ask(state, now)
        for name in running(decision.grants):
            if now >= begin:
                held[name] += min(decision.wake_at_ns, begin + 1000 * MS) - now
        now, state = decision.wake_at_ns if running(decision.grants) else now + MS // 10, decision.state
    total = sum(held.values())
    assert abs(held["a"] / total - 0.7) <= 0.03


def test_a_clock_that_is_set_back_ages_nothing(policy):
    def turn(set_back_ns):
        gpu = State(Gpu(80 << 30), (Tenant("a", policy(share=700)), Tenant("b", policy(share=300))))
        busy = Report(runnable=True)
        state = decide(gpu.reported({"a": busy, "b": busy}), 10**12).state
        state = decide(state, 10**12 + MS).state
        decision = decide(state, 10**12 + MS - set_back_ns)
        return decision.grant("a").deadline_ns - (10**12 + MS - set_back_ns)

    # The first turn is 3 ms long, of which one has passed: 2 ms are left, on whichever clock.
    assert turn(0) == turn(5 * MS) == turn(10**12) == 2 * MS


def test_a_thousand_tenants_have_turns_one_after_the_other(policy):
    random_ = random.Random(7)
    tenants = tuple(
        Tenant(f"s{number:04}", policy(random_.choice(["normal", "low"]), share=10), report=Report(runnable=True))
        for number in range(1000)
    )
    state, now, seen = State(Gpu(80 << 30), tenants), 0, []
    for _ in range(120):
        state = state.reported(
            {
                tenant.id: Report(runnable=True, acknowledged_epoch=tenant.standing.lease.epoch)
                for tenant in state.tenants
                if tenant.standing.lease.state is not LeaseState.STOP
            }
        )
        decision = decide(state, now)
        holders = running(decision.grants)
        assert len(holders) <= 1
        if holders and (not seen or seen[-1] != holders[0]):
            seen.append(holders[0])
        now, state = decision.wake_at_ns if holders else now + MS // 10, decision.state
    assert len(seen) == len(set(seen)) >= 59
    normal = {tenant.id for tenant in tenants if tenant.policy.tier.value == "normal"}
    assert set(seen) <= normal
    assert now <= 60 * 4 * MS


def test_an_agent_that_was_restarted_adopts_its_clients_without_a_pause(policy):
    def found(name, tier, state, epoch):
        report = Report(runnable=True, in_flight=2, acknowledged_epoch=epoch, device_ns=10**15, stolen_ns=10**15)
        lease = Lease(epoch=epoch, state=state, since_ns=10**9)
        return Tenant(name, policy(tier, share=300), report=report, standing=Standing(lease=lease))

    tenants = (
        found("h", "high", LeaseState.RUN, 7),
        found("n", "normal", LeaseState.RUN, 40),
        found("g", "low", LeaseState.STOP, 3),
    )
    decision = decide(State(Gpu(80 << 30), tenants), 10**9)
    assert [(grant.tenant_id, grant.epoch, grant.state, grant.budget_ppm) for grant in decision.grants] == [
        ("h", 7, LeaseState.RUN, None), ("n", 40, LeaseState.RUN, 10_000), ("g", 3, LeaseState.STOP, 0),
    ]  # fmt: skip


def test_two_lower_leases_that_are_found_running_become_one(policy):
    running_lease = Standing(lease=Lease(epoch=1, state=LeaseState.RUN, since_ns=10**9))
    tenants = tuple(
        Tenant(name, policy(share=300), report=Report(runnable=True, acknowledged_epoch=1), standing=running_lease)
        for name in "ab"
    )
    decision = decide(State(Gpu(80 << 30), tenants), 10**9)
    assert len(running(decision.grants)) == 1
    assert [grant.state for grant in decision.grants if grant.state is LeaseState.DRAIN] == [LeaseState.DRAIN]
