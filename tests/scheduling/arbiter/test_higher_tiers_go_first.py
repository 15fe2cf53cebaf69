"""Who may run when several tiers have work: decisions asked for one by one, with answers worked out by hand.

Unless a test says otherwise the GPU switches in 50 µs, so that the shortest quantum is 60 x 50 µs = 3 ms; the longest is
30 ms; an idle holder lingers for 1 ms.
"""

import pytest

from pillion.scheduling.arbiter import NEVER_NS, Gpu, Grant, LeaseState, Report, State, Tenant, Tuning, decide

MS = 1_000_000
RUN, DRAIN, STOP = LeaseState.RUN, LeaseState.DRAIN, LeaseState.STOP
BUSY, IDLE = Report(runnable=True, in_flight=1), Report()
QUEUED = Report(runnable=True)  # waits at the gate, with nothing on the GPU


class Script:
    """One GPU, asked again and again; clients acknowledge each lease at once."""

    def __init__(self, **policies):
        self.state = State(Gpu(80 << 30), tuple(Tenant(name, policy) for name, policy in policies.items()))
        self.decision = None

    def at(self, milliseconds, **reports):
        seen = {
            tenant.id: reports.get(tenant.id, tenant.report)._replace(acknowledged_epoch=tenant.standing.lease.epoch)
            for tenant in self.state.tenants
        }
        self.decision = decide(self.state.reported(seen), round(milliseconds * MS))
        self.state = self.decision.state
        return {grant.tenant_id: grant.state for grant in self.decision.grants}

    def deadline_ms(self, name):
        return self.decision.grant(name).deadline_ns / MS


def test_a_high_step_runs_before_it_has_work_and_no_lower_one_takes_its_lease(policy):
    gpu = Script(h=policy("high", share=500), n=policy(share=300), g=policy("low"))
    assert gpu.at(0) == {"h": RUN, "n": STOP, "g": STOP}
    assert gpu.at(1, g=QUEUED) == {"h": RUN, "n": STOP, "g": RUN}
    assert gpu.at(2, g=BUSY, h=BUSY) == {"h": RUN, "n": STOP, "g": RUN}
    assert gpu.decision.grant("h").deadline_ns == NEVER_NS


def test_a_normal_step_takes_the_gpu_from_a_guest_at_once_and_gets_it_when_the_guest_has_drained(policy):
    gpu = Script(n=policy(share=300), g=policy("low"))
    assert gpu.at(0, g=QUEUED) == {"n": STOP, "g": RUN}
    assert gpu.at(5, g=BUSY, n=QUEUED) == {"n": STOP, "g": DRAIN}
    assert gpu.at(6) == {"n": STOP, "g": DRAIN}
    assert gpu.at(7, g=QUEUED) == {"n": RUN, "g": STOP}
    assert gpu.at(500, n=BUSY) == {"n": RUN, "g": STOP}


def test_a_guest_that_has_only_just_begun_gives_way_as_quickly(policy):
    gpu = Script(n=policy(share=300), g=policy("low"))
    assert gpu.at(0, g=QUEUED) == {"n": STOP, "g": RUN}
    assert gpu.at(0.2, n=QUEUED) == {"n": STOP, "g": DRAIN}
    assert gpu.at(0.3) == {"n": RUN, "g": STOP}


def test_a_guest_runs_in_a_normal_steps_pauses_once_these_are_longer_than_a_millisecond(policy):
    gpu = Script(n=policy(share=300), g=policy("low"))
    assert gpu.at(0, n=QUEUED, g=QUEUED) == {"n": RUN, "g": STOP}
    assert gpu.at(10, n=IDLE) == {"n": RUN, "g": STOP}
    assert gpu.decision.wake_at_ns == 11 * MS
    assert gpu.at(10.9, n=QUEUED) == {"n": RUN, "g": STOP}
    assert gpu.at(20, n=IDLE) == {"n": RUN, "g": STOP}
    assert gpu.at(21) == {"n": DRAIN, "g": STOP}
    assert gpu.at(21.1) == {"n": STOP, "g": RUN}


def test_who_runs_last_keeps_the_lease_while_nobody_else_has_work(policy):
    gpu = Script(a=policy(share=300), b=policy(share=300))
    assert gpu.at(0, b=QUEUED) == {"a": STOP, "b": RUN}
    assert gpu.at(10, b=IDLE) == {"a": STOP, "b": RUN}
    assert gpu.at(9000) == {"a": STOP, "b": RUN}
    assert gpu.at(9001, a=QUEUED) == {"a": STOP, "b": DRAIN}
    assert gpu.at(9001.1) == {"a": RUN, "b": STOP}


def test_two_normal_steps_take_turns_of_21_and_9_milliseconds(policy):
    # A round of two is 30 ms, of which 0.7 and 0.3. `b` has just come and waits for the shortest quantum only; from then
    # on, each drains in 1 ms, and a turn lasts until the other has caught up:
    #   until   a has held   b has held   a/0.7   b/0.3
    #   4 ms             4            0    5.71       0
    #   14 ms            4           10    5.71   33.33    b's quantum of 9 was longer than the 1.71 that it was behind
    #   36 ms           26           10   37.14   33.33    a's quantum of 21 was longer than the 19.33 that it was behind
    #   46 ms           26           20   37.14   66.67
    gpu = Script(a=policy(share=700), b=policy(share=300))
    assert gpu.at(0, a=QUEUED, b=QUEUED) == {"a": RUN, "b": STOP}
    assert gpu.deadline_ms("a") == 3
    assert gpu.decision.wake_at_ns == 3 * MS
    assert gpu.at(3, a=BUSY) == {"a": DRAIN, "b": STOP}
    assert gpu.at(4, a=QUEUED) == {"a": STOP, "b": RUN}
    assert gpu.deadline_ms("b") == 13
    assert gpu.at(13, b=BUSY) == {"a": STOP, "b": DRAIN}
    assert gpu.at(14, b=QUEUED) == {"a": RUN, "b": STOP}
    assert gpu.deadline_ms("a") == 35
    assert gpu.at(34.8, a=BUSY) == {"a": RUN, "b": STOP}
    assert gpu.at(35) == {"a": DRAIN, "b": STOP}
    assert gpu.at(36, a=QUEUED) == {"a": STOP, "b": RUN}
    assert gpu.deadline_ms("b") == 45
    assert [gpu.decision.grant(name).quantum_ns for name in "ab"] == [21 * MS, 9 * MS]


def test_overuse_is_charged_by_the_length_of_the_next_turn(policy):
    # b's first turn begins at 4 ms and should end at 13, but its last submission ends at 54. It has then held 50 ms for
    # its 0.3, that is 166.67; a, with 5.71 so far, catches up after (166.67 - 5.71) x 0.7 = 112.67 ms.
    gpu = Script(a=policy(share=700), b=policy(share=300))
    gpu.at(0, a=QUEUED, b=QUEUED)
    gpu.at(3, a=BUSY)
    gpu.at(4, a=QUEUED)
    assert gpu.at(13, b=BUSY) == {"a": STOP, "b": DRAIN}
    assert gpu.at(54, b=QUEUED) == {"a": RUN, "b": STOP}
    assert gpu.deadline_ms("a") == pytest.approx(54 + 112.67, abs=0.01)
    # A turn that ends within 0.1 ms has ended, and is not taken up again although a is still a little behind.
    assert gpu.at(166.6, a=BUSY) == {"a": DRAIN, "b": STOP}
    assert gpu.at(166.61) == {"a": DRAIN, "b": STOP}
    assert gpu.at(166.9, a=QUEUED) == {"a": STOP, "b": RUN}


def test_two_high_steps_take_turns_while_both_have_work_and_both_run_otherwise(policy):
    gpu = Script(x=policy("high", share=500), y=policy("high", share=500))
    assert gpu.at(0, x=BUSY) == {"x": RUN, "y": RUN}
    # y comes: x has run for 50 ms and y not at all since then, so it is y's turn, for 15 ms, half of a round of two.
    assert gpu.at(50, y=BUSY) == {"x": DRAIN, "y": RUN}
    assert gpu.at(51, x=QUEUED) == {"x": STOP, "y": RUN}
    assert gpu.at(64.8) == {"x": STOP, "y": RUN}
    assert gpu.at(65) == {"x": STOP, "y": DRAIN}
    assert gpu.at(66, y=QUEUED) == {"x": RUN, "y": STOP}
    assert gpu.at(70, x=IDLE) == {"x": RUN, "y": RUN}


def test_a_high_step_beyond_its_share_goes_on_unless_the_tuning_holds_it_to_it(machine, program, policy):
    shares = []
    for keeps in (False, True):
        gpu = machine(tuning=Tuning(high_keeps_to_share=keeps))
        gpu.join("h", policy("high", share=600), program(MS))
        gpu.join("n", policy(share=400), program(MS))
        gpu.run(2000 * MS)
        shares.append([round(gpu.used_ns(who, 0, 2000 * MS) / (2000 * MS), 2) for who in "hn"])
    alone, held = shares
    assert alone == [1.0, 0.0]
    # Each time that it comes back it waits for what n has on the GPU, some 1 ms in 60.
    assert held == [pytest.approx(0.59, abs=0.02), pytest.approx(0.4, abs=0.02)]


def test_the_grant_says_everything_that_the_gate_needs(policy):
    gpu = Script(h=policy("high", share=500, slowdown=20_000, stall=5 * MS), g=policy("low"))
    gpu.at(0, g=QUEUED)
    assert gpu.decision.grants == (
        Grant("h", 1, RUN, NEVER_NS, in_flight_cap=0, budget_ppm=None, max_stall_ns=None, quantum_ns=30 * MS),
        Grant("g", 1, RUN, 1000 * MS, in_flight_cap=8, budget_ppm=20_000, max_stall_ns=5 * MS, quantum_ns=30 * MS),
    )
    assert gpu.decision.wake_at_ns == 500 * MS
