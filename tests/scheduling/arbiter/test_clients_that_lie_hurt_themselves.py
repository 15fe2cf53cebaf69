"""A client's page says what its client likes. Whatever that is, the others keep what they are entitled to."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pillion.scheduling.arbiter import Gpu, LeaseState, Report, State, Tenant, decide

MS = 1_000_000
NUMBERS = st.one_of(st.integers(-5, 5), st.integers(-(1 << 63), 1 << 64), st.sampled_from([0, 1 << 31, (1 << 64) - 1]))
LIES = st.builds(
    Report,
    runnable=st.booleans(),
    in_flight=NUMBERS,
    acknowledged_epoch=NUMBERS,
    device_ns=st.none() | NUMBERS,
    stolen_ns=NUMBERS,
    memory_bytes=NUMBERS,
    memory_wanted_bytes=NUMBERS,
)


def play(state, lies, until_ms, honest):
    """Ask every millisecond, or sooner if told so; the honest are always busy and drain by then. Returns time held."""
    held = dict.fromkeys(honest, 0)
    now_ns, number = 0, 0
    while now_ns < until_ms * MS:
        reports = {}
        for tenant in state.tenants:
            if tenant.id in honest:
                running = tenant.standing.lease.state is LeaseState.RUN
                reports[tenant.id] = Report(
                    runnable=True, in_flight=int(running), acknowledged_epoch=tenant.standing.lease.epoch
                )
            else:
                reports[tenant.id] = lies[number % len(lies)]
                number += 1
        decision = decide(state.reported(reports), now_ns)
        state = decision.state
        until_ns = min(decision.wake_at_ns, now_ns + MS)
        assert until_ns > now_ns
        for name in honest:
            held[name] += (until_ns - now_ns) * (decision.grant(name).state is not LeaseState.STOP)
        now_ns = until_ns
    return held, state


@settings(max_examples=20, deadline=None)
@given(lies=st.lists(LIES, min_size=1, max_size=12))
def test_a_liar_cannot_take_a_peers_share(policy, lies):
    state = State(Gpu(80 << 30), (Tenant("honest", policy(share=700)), Tenant("liar", policy(share=300))))
    held, _ = play(state, lies, 3000, ["honest"])
    # One drain that never ends costs the others 100 ms, and the liar its next turns.
    assert held["honest"] >= (0.7 * 3000 - 100 - 0.03 * 3000) * MS


@settings(max_examples=15, deadline=None)
@given(lies=st.lists(LIES, min_size=1, max_size=12), tier=st.sampled_from(["normal", "low"]))
def test_a_lower_liar_cannot_stop_a_high_step_nor_a_guest_a_normal_one(policy, lies, tier):
    high = State(Gpu(80 << 30), (Tenant("h", policy("high", share=500)), Tenant("liar", policy(tier, share=300))))
    held, _ = play(high, lies, 500, ["h"])
    assert held["h"] == 500 * MS
    normal = State(Gpu(80 << 30), (Tenant("n", policy(share=500)), Tenant("liar", policy("low"))))
    held, _ = play(normal, lies, 500, ["n"])
    assert held["n"] >= 400 * MS


@settings(max_examples=15, deadline=None)
@given(lies=st.lists(LIES, min_size=1, max_size=12))
def test_nobody_loses_memory_or_pod_to_a_peer_or_to_a_claim_beyond_the_quota(policy, lies):
    # The three quotas fill the GPU exactly, so that the high step's 20 GiB are free whatever the peer claims to hold.
    victim = Tenant("v", policy(share=300, memory=40, on_preempt="evict"), report=Report(memory_bytes=40 << 30))
    needy = Tenant("h", policy("high", share=300, memory=20), report=Report(memory_wanted_bytes=20 << 30))
    state = State(Gpu(100 << 30), (victim, Tenant("peer", policy(share=300, memory=40)), needy))
    for number, lie in enumerate(lies):
        decision = decide(state.reported({"peer": lie}), number * MS)
        state = decision.state
        assert (decision.actions, decision.unmet) == ((), ())


def test_a_client_that_never_drains_waits_until_it_has_while_others_go_on(policy):
    state = State(Gpu(80 << 30), (Tenant("honest", policy(share=100)), Tenant("liar", policy(share=900))))
    lies = [Report(runnable=True, in_flight=1)]  # acknowledges nothing
    held, state = play(state, lies, 2000, ["honest"])
    # At most the liar's first turn, which is a quantum of 27 ms beside a weight of 100, and 100 ms of drain.
    assert held["honest"] >= (2000 - 30 - 27 - 100 - 3) * MS
    liar = next(tenant for tenant in state.tenants if tenant.id == "liar")
    assert (liar.standing.lease.state, liar.standing.lease.overrun) == (LeaseState.STOP, True)


def test_a_huge_device_time_counts_for_one_window_at_most(policy):
    state = State(Gpu(80 << 30), (Tenant("s", policy(share=100, limit=500)),))
    state = decide(state.reported({"s": Report(runnable=True, device_ns=0)}), 0).state
    state = decide(state.reported({"s": Report(runnable=True, device_ns=1 << 64)}), MS).state
    report = Report(runnable=True, device_ns=1 << 64, acknowledged_epoch=9)
    states = []
    for now_ms in range(2, 1400, 10):
        decision = decide(state.reported({"s": report}), now_ms * MS)
        state = decision.state
        states.append(decision.grant("s").state)
    assert states[0] is not LeaseState.RUN
    assert states[-1] is LeaseState.RUN


def test_a_client_that_drains_after_all_is_forgiven_within_ten_seconds(policy):
    state = State(Gpu(80 << 30), (Tenant("honest", policy(share=900)), Tenant("late", policy(share=100))))
    _, state = play(state, [Report(runnable=True, in_flight=1)], 10_000, ["honest"])
    held, now_ms = 0, 10_000
    for now_ms in range(10_000, 23_000):
        reports = {
            tenant.id: Report(runnable=True, acknowledged_epoch=tenant.standing.lease.epoch) for tenant in state.tenants
        }
        decision = decide(state.reported(reports), now_ms * MS)
        state = decision.state
        held += decision.grant("late").state is not LeaseState.STOP
    # For the ten seconds it owes the other ninety. It waits for ten, in which the other has what ten seconds are worth
    # to both, nine of its own; then it has its tenth of the four that are left.
    assert 370 <= held <= 430
