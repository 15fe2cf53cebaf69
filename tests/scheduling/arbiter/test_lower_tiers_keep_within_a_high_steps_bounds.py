"""Budgets: what lower steps may steal from high ones, in sum, and what happens when more was stolen."""

from hypothesis import given
from hypothesis import strategies as st

from pillion.scheduling.arbiter import Gpu, LeaseState, Report, State, Tenant, decide

MS = 1_000_000
QUEUED = Report(runnable=True)


def budgets(decision):
    return {grant.tenant_id: grant.budget_ppm for grant in decision.grants}


def test_without_a_high_step_there_is_nothing_to_be_careful_of(policy):
    tenants = (Tenant("n", policy(share=300), report=QUEUED), Tenant("g", policy("low"), report=QUEUED))
    assert budgets(decide(State(Gpu(80 << 30), tenants), 0)) == {"n": None, "g": None}


def test_the_holder_of_the_lower_tiers_lease_has_the_whole_budget(policy):
    tenants = (
        Tenant("h", policy("high", share=300, slowdown=10_000)),
        Tenant("n", policy(share=300)),
        Tenant("g", policy("low"), report=QUEUED),
        Tenant("i", policy("low"), report=QUEUED),
    )
    assert budgets(decide(State(Gpu(80 << 30), tenants), 0)) == {"h": None, "n": 0, "g": 10_000, "i": 0}


def test_beside_two_high_steps_the_stricter_bounds_hold(policy):
    tenants = (
        Tenant("h", policy("high", share=300, slowdown=10_000, stall=20 * MS)),
        Tenant("k", policy("high", share=300, slowdown=50_000, stall=2 * MS)),
        Tenant("g", policy("low"), report=QUEUED),
    )
    grant = decide(State(Gpu(80 << 30), tenants), 0).grant("g")
    assert (grant.budget_ppm, grant.max_stall_ns) == (10_000, 2 * MS)


def stolen(policy, *steals_ms):
    """Let one high step report, each 100 ms, how much has been stolen since the last time; return g's budget each time."""
    state = State(Gpu(80 << 30), (Tenant("h", policy("high", share=300)), Tenant("g", policy("low"), report=QUEUED)))
    total, seen = 0, []
    for number, steal_ms in enumerate(steals_ms):
        total += round(steal_ms * MS)
        decision = decide(state.reported({"h": Report(stolen_ns=total)}), number * 100 * MS)
        state = decision.state
        seen.append(decision.grant("g").budget_ppm)
    return seen


def test_what_was_stolen_beyond_the_bound_is_taken_off_the_budget_until_the_window_has_passed(policy):
    # A bound of 1 % is 10 ms in a window of one second. 16 ms are 6 too many: 1 % - 0.6 % is left.
    # Later steals of 1 ms make it 17 and 18 ms. All has left the window 1.1 s later at the latest.
    assert stolen(policy, 0, 8, 8, 1, 1) == [10_000, 10_000, 4_000, 3_000, 2_000]
    assert stolen(policy, 0, 8, 8, *[0] * 12)[-1] == 10_000


def test_a_budget_never_becomes_negative_however_much_is_stolen(policy):
    assert stolen(policy, 0, 30, 100) == [10_000, 0, 0]


def test_what_a_high_step_reports_is_believed_only_as_far_as_time_has_passed(policy):
    # 10 s are said to have been stolen within 100 ms: at most 100 ms were. The next report is sane, and 1.2 s after the
    # lie (which is worked off for at most a window) nothing is left of it.
    assert stolen(policy, 0, 10_000, *[0] * 21)[-1] == 10_000
    assert stolen(policy, 0, -5, 0) == [10_000] * 3


def test_a_high_step_that_is_at_its_own_limit_asks_for_no_care(policy):
    state = State(
        Gpu(80 << 30),
        (Tenant("h", policy("high", share=100, limit=100), report=QUEUED), Tenant("g", policy("low"), report=QUEUED)),
    )
    now_ms, grant = 0, decide(state, 0).grant("g")
    assert grant.budget_ppm == 10_000
    while grant.budget_ppm is not None:
        decision = decide(state, now_ms * MS)
        grant, state, now_ms = decision.grant("g"), decision.state, now_ms + 5
        high = decision.grant("h")
        state = state.reported({"h": Report(runnable=True, acknowledged_epoch=high.epoch)})
    # 30 ms at full speed are a quantum; the drain is noticed at the next look.
    assert now_ms <= 30 + 3 * 5
    assert high.state is LeaseState.STOP


@given(
    high=st.lists(st.tuples(st.integers(1_000, 500_000), st.integers(0, 2_000 * MS)), min_size=1, max_size=3),
    lower=st.lists(st.sampled_from(["normal", "low"]), max_size=6),
    times=st.lists(st.integers(1, 700 * MS), min_size=1, max_size=8),
)
def test_budgets_never_add_up_to_more_than_any_high_step_allows(policy, high, lower, times):
    tenants = [Tenant(f"h{i}", policy("high", share=100, slowdown=ppm)) for i, (ppm, _) in enumerate(high)]
    tenants += [Tenant(f"l{i}", policy(tier, share=50), report=QUEUED) for i, tier in enumerate(lower)]
    state, now = State(Gpu(80 << 30), tuple(tenants)), 0
    for number, gap in enumerate(times):
        now += gap
        state = state.reported({f"h{i}": Report(stolen_ns=stolen * number) for i, (_, stolen) in enumerate(high)})
        decision = decide(state, now)
        state = decision.state
        total = sum(budget for budget in budgets(decision).values() if budget is not None)
        assert 0 <= total <= min(ppm for ppm, _ in high)
