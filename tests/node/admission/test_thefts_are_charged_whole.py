"""What is charged for a theft, worked out by hand, and whatever order its facts become known in.

The high step returns at R, this tenant's work ends at C. Charged are the time in which both had work, less what the high step
surely ran of it, and one switch for giving the device back.
"""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.decision import Admit, Lease

MS = 1_000_000
SWITCH = 50_000
PAUSE, RETURN = 5 * MS, 8_300_000


def lend(tenant, submit_ns, done_ns, return_ns=RETURN, idle_ns=None, order=("done", "busy", "idle"), **terms):
    """One pause is lent; return what was charged once everything is known."""
    admit = tenant(**terms)
    admit.high_busy(0, 0)
    admit.high_idle(PAUSE, PAUSE)
    ticket = admit.submitted(submit_ns, 1)
    known_ns = 100 * MS
    tell = {
        "done": lambda: admit.completed(known_ns, ticket, done_ns, 0),
        "busy": lambda: admit.high_busy(known_ns, return_ns),
        "idle": lambda: idle_ns is None or admit.high_idle(known_ns, idle_ns),
    }
    for what in order:
        tell[what]()
    return admit.charged_ns


def test_a_pause_that_was_lent_costs_one_switch_though_all_fitted(tenant):
    assert lend(tenant, PAUSE, 8 * MS) == SWITCH


def test_a_pause_that_was_not_lent_costs_nothing(tenant):
    admit = tenant()
    for now_ns in range(0, 100 * MS, 10 * MS):
        admit.high_busy(now_ns, now_ns)
        admit.high_idle(now_ns + 5 * MS, now_ns + 5 * MS)
    assert admit.charged_ns == 0


def test_an_overrun_costs_its_length_and_the_switch(tenant):
    assert lend(tenant, PAUSE, RETURN + 250_000) == 250_000 + SWITCH


def test_a_kernel_cut_by_the_drivers_slices_costs_what_it_ran_and_every_switch(tenant):
    """0.75 ms to the end of its slice, a switch, 2 ms of the high step's, a switch, 1 ms, a switch."""
    overlap_ns = 750_000 + SWITCH + 2 * MS + SWITCH + MS
    assert lend(tenant, PAUSE, RETURN + overlap_ns) == 750_000 + MS + 3 * SWITCH


def test_with_slices_unknown_the_whole_overlap_counts(tenant):
    overlap_ns = 750_000 + SWITCH + 2 * MS + SWITCH + MS
    assert lend(tenant, PAUSE, RETURN + overlap_ns, slice_ns=0) == overlap_ns + SWITCH


def test_a_theft_ends_with_the_high_steps_work(tenant):
    assert lend(tenant, PAUSE, 20 * MS, idle_ns=RETURN + 1_500_000) == 1_500_000 + SWITCH


def test_work_submitted_beside_a_busy_step_costs_its_overlap_and_the_switch(tenant):
    assert lend(tenant, RETURN + MS, RETURN + 2 * MS, order=("busy", "done")) == MS + SWITCH


def test_a_return_seen_late_is_charged_all_the_same(tenant):
    """The completion is known before the return is: 'reaping before booking' books nothing in a gate that forgets."""
    assert lend(tenant, PAUSE, RETURN + 400_000, order=("done", "busy")) == 400_000 + SWITCH


@pytest.mark.parametrize(
    "order", [order for order in permutations(["done", "busy", "idle"]) if order.index("busy") < order.index("idle")]
)
@given(
    submit_ns=st.integers(PAUSE, RETURN - 1),
    overrun_ns=st.integers(-(10**6), 3 * 10**7),
    busy_ns=st.integers(1, 10**7),
    slice_ns=st.sampled_from([0, 2 * MS]),
)
def test_the_charge_does_not_depend_on_the_order_in_which_facts_become_known(
    lib, order, submit_ns, overrun_ns, busy_ns, slice_ns
):
    def tenant(**terms):
        admit = Admit(lib)
        admit.set_terms(
            0,
            max_slowdown_ppm=10_000,
            budget_ppm=10**6,
            max_stall_ns=10 * MS,
            bucket_ns=300 * MS,
            switch_ns=SWITCH,
            **terms,
        )
        admit.set_lease(0, Lease.RUN)
        admit.high_present(0)
        return admit

    done_ns = max(submit_ns, RETURN + overrun_ns)
    facts = {"submit_ns": submit_ns, "done_ns": done_ns, "idle_ns": RETURN + busy_ns, "slice_ns": slice_ns}
    assert lend(tenant, **facts, order=order) == lend(tenant, **facts)


def test_while_a_theft_goes_on_its_charge_is_held_back_from_the_credit(tenant):
    admit = tenant()
    admit.high_busy(0, 0)
    admit.high_idle(PAUSE, PAUSE)
    admit.submitted(PAUSE, 1)
    admit.decide(200 * MS)
    before_ns = admit.credit_ns
    admit.high_busy(200 * MS, 200 * MS)
    admit.decide(201 * MS)
    earned_ns = 9_752
    assert before_ns + earned_ns - admit.credit_ns == pytest.approx(MS + SWITCH, abs=1)


def test_a_stay_longer_than_all_that_is_remembered_is_charged_for_every_burst(tenant):
    """A hundred bursts of 1 ms beside one endless kernel: more than the ring of spans holds."""
    admit = tenant(slice_ns=0)
    ticket = admit.submitted(0, 1)
    for turn in range(100):
        admit.high_busy((10 * turn + 5) * MS, (10 * turn + 5) * MS)
        admit.high_idle((10 * turn + 6) * MS, (10 * turn + 6) * MS)
    admit.completed(1000 * MS, ticket, 1000 * MS, 0)
    assert admit.charged_ns == 100 * (MS + SWITCH)


def test_a_tenant_that_slept_is_not_charged_for_bursts_after_its_work_was_done(tenant):
    admit = tenant()
    ticket = admit.submitted(0, 1)
    admit.completed(1000 * MS, ticket, MS, 0)
    for turn in range(100):
        admit.high_busy(1000 * MS, (10 * turn + 5) * MS)
        admit.high_idle(1000 * MS, (10 * turn + 6) * MS)
    assert admit.charged_ns == SWITCH
