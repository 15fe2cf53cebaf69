"""When a submission goes at once, and when it waits."""

import pytest

from admission.decision import NEVER, Answer, Lease, Reason

MS = 1_000_000
S = 1_000 * MS


def pauses(admit, count, busy_ns, pause_ns, start_ns=0):
    """Let the high step work and pause `count` times; return the moment at which the last pause begins."""
    now_ns = start_ns
    for turn in range(count):
        if turn:
            now_ns += pause_ns
        admit.high_busy(now_ns, now_ns)
        now_ns += busy_ns
        admit.high_idle(now_ns, now_ns)
    return now_ns


def teach(admit, unit_id, takes_ns):
    """Let a unit be known before a high step comes; the very first time its context has to be loaded."""
    for turn in range(1, 17):
        ticket = admit.submitted(turn, unit_id)
        admit.completed(turn, ticket, turn, takes_ns + (50_000 if turn == ticket == 1 else 0))


def test_no_high_step_about_everything_goes(tenant):
    admit = tenant(high=False)
    assert [admit.decide(now_ns) for now_ns in (0, 5, S)] == [Answer(True, 0, Reason.NO_HIGH)] * 3


@pytest.mark.parametrize("lease", [Lease.STOP, Lease.DRAIN])
@pytest.mark.parametrize("high", [False, True])
def test_without_the_lease_nothing_goes_until_it_changes(tenant, lease, high):
    assert tenant(high=high, lease=lease).decide(S) == Answer(False, NEVER, Reason.NO_LEASE)


def test_work_goes_again_when_the_last_high_step_has_left(tenant):
    admit = tenant(max_slowdown_ppm=0)
    admit.high_present(0, which=3)
    admit.high_busy(MS, MS, which=3)
    assert not admit.decide(2 * MS).go
    admit.high_present(3 * MS, present=False, which=3)
    assert not admit.decide(4 * MS).go
    admit.high_present(5 * MS, present=False)
    assert admit.decide(6 * MS) == Answer(True, 0, Reason.NO_HIGH)


def test_a_bound_of_nothing_lends_nothing(tenant):
    admit = tenant(max_slowdown_ppm=0)
    assert admit.decide(60 * S).reason is Reason.CREDIT


def test_credit_is_earned_by_the_clock_at_the_bound(tenant):
    """1 % of exclusive time is 1/101 of the wall's; 985 parts in a thousand of it are spent: 9752.475 ns in a ms."""
    admit = tenant()
    admit.decide(10 * MS)
    assert admit.credit_ns == 97_524
    admit.decide(10 * S)
    assert admit.credit_ns == admit.bucket_ns == 2_925_742  # what 0.3 s earn


def test_tenants_share_the_budget_by_their_parts(tenant):
    quarter = tenant(budget_ppm=250_000)
    quarter.decide(10 * MS)
    assert quarter.credit_ns == 24_381


def test_the_first_high_step_to_come_finds_no_credit_saved_up(tenant):
    admit = tenant(high=False)
    admit.set_lease(10 * S, Lease.RUN)
    assert admit.credit_ns == admit.bucket_ns
    admit.high_present(10 * S)
    assert admit.credit_ns == 0


def test_a_unit_that_fits_the_pause_goes_and_one_that_does_not_waits(tenant):
    admit = tenant(high=False)
    teach(admit, 1, 500_000)
    teach(admit, 2, 5 * MS)
    admit.high_present(0)
    now_ns = pauses(admit, 20, 5 * MS, 3_300_000)  # 163 ms: 1.6 ms of credit, a bit more than half of the bucket
    assert admit.decide(now_ns + 10_000, 1) == Answer(True, 0, Reason.FITS)
    assert admit.decide(now_ns + 20_000, 2).reason is Reason.CREDIT  # 1.8 ms too long: more than there is
    ticket = admit.submitted(now_ns + 20_000, 1)
    admit.completed(now_ns + 600_000, ticket, now_ns + 570_000, 550_000)
    assert admit.decide(now_ns + 600_000, 1) == Answer(True, 0, Reason.FITS)
    assert admit.decide(now_ns + 3_000_000, 1).reason is Reason.PRICE  # 0.2 ms too long: credit buys better elsewhere


def test_a_low_bound_takes_nothing_from_a_high_step_that_never_pauses(tenant):
    admit = tenant(max_slowdown_ppm=19_999)
    admit.high_busy(0, 0)
    for now_ns in range(0, 10 * S, 7 * MS):
        assert admit.decide(now_ns).reason is Reason.BUSY


def test_a_high_bound_is_an_allowance(tenant):
    admit = tenant(max_slowdown_ppm=50_000)
    admit.high_busy(0, 0)
    assert not admit.decide(10 * MS).go
    assert admit.decide(S).go


def test_the_next_unit_waits_until_it_is_due(tenant):
    admit = tenant(high=False)
    teach(admit, 1, 500_000)
    admit.high_present(0)
    now_ns = pauses(admit, 20, 5 * MS, 3_300_000)
    admit.submitted(now_ns, 1)
    answer = admit.decide(now_ns, 1)
    assert (answer.go, answer.reason) == (False, Reason.FED)
    assert now_ns + 500_000 < answer.until_ns < now_ns + 550_000  # its predecessor ends after switch and 500 us
    assert admit.decide(answer.until_ns, 1).go


def test_a_unit_never_seen_before_goes_alone(tenant):
    admit = tenant(high=False)
    teach(admit, 1, 100_000)
    admit.high_present(0)
    now_ns = pauses(admit, 20, 5 * MS, 30 * MS)
    ticket = admit.submitted(now_ns, 1)
    assert admit.decide(now_ns + 140_000, 1).go
    assert admit.decide(now_ns + 140_000, 99).reason is Reason.ONE_AT_A_TIME
    admit.completed(now_ns + 151_000, ticket, now_ns + 150_000, 150_000)
    assert admit.decide(now_ns + 151_000, 99).go


def test_a_new_kernel_is_tried_though_the_guess_is_more_than_can_ever_be_saved(tenant):
    """A sixteenth of 0.1 %: ten buckets hold 0.18 ms, a new kernel is guessed at 0.5 ms, any pause may be shorter."""
    admit = tenant(max_slowdown_ppm=1_000, budget_ppm=62_500)
    now_ns = 0
    for turn in range(4_000):
        admit.high_busy(now_ns, now_ns)
        now_ns += 5 * MS
        admit.high_idle(now_ns, now_ns)
        if admit.decide(now_ns + 1).go:
            break
        now_ns += 20_000 + turn * 7_919_000 % (30 * MS)
    assert 0 < turn < 3_999


def test_an_unknown_graph_counts_as_its_nodes_times_what_kernels_take(tenant):
    admit = tenant(high=False)
    assert admit.expected_ns(unit_id=5, nodes=20) == 20 * admit.expected_ns(unit_id=6, nodes=1) == 10 * MS


def test_what_is_overdue_keeps_the_next_from_going(tenant):
    admit = tenant(high=False)
    teach(admit, 1, 100_000)
    admit.high_present(0)
    now_ns = pauses(admit, 20, 5 * MS, 30 * MS)
    ticket = admit.submitted(now_ns, 1)
    assert admit.decide(now_ns + 400_000, 1).reason is Reason.OVERDUE
    admit.completed(now_ns + 500_000, ticket, now_ns + 500_000, 500_000)
    assert admit.decide(now_ns + 500_000, 1).go


def test_a_unit_that_could_stall_the_high_step_too_long_never_goes_beside_it(tenant):
    admit = tenant(high=False, max_slowdown_ppm=500_000, max_stall_ns=2 * MS)
    teach(admit, 1, 2 * MS)  # with a switch more than the bound
    teach(admit, 2, 1_890_000)
    admit.high_present(0)
    now_ns = pauses(admit, 200, 5 * MS, 10_000)
    assert admit.decide(now_ns, 1).reason is Reason.STALL
    assert admit.decide(now_ns, 2).go
    admit.high_busy(now_ns + 1, now_ns + 1)
    assert admit.decide(now_ns + 2, 1).reason is Reason.STALL
    assert admit.decide(now_ns + 2, 2).go


def test_how_long_a_kernel_takes_is_learnt_without_what_others_took(tenant):
    """5 ms, of which the last 1.75 ms after the high step's return: 0.75, a slice of 2 ms given away, 1.0; four switches."""
    admit = tenant()
    admit.high_busy(0, 0)
    admit.high_idle(5 * MS, 5 * MS)
    ticket = admit.submitted(5 * MS, 1)
    admit.high_busy(8_300_000, 8_300_000)
    done_ns = 5 * MS + 50_000 + 4 * MS + 50_000 + 2 * MS + 50_000 + MS
    admit.completed(done_ns, ticket, done_ns, done_ns - 5 * MS)
    assert admit.expected_ns(1) == 5 * MS
