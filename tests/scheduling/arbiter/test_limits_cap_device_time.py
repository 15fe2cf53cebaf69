"""A limit holds over every window, and is spent evenly rather than all at once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

MS = 1_000_000
WINDOW = 1000 * MS


def most_in_a_window(gpu, who):
    """The most device time in any window; the worst one ends where some unit ends."""
    return max(gpu.used_ns(who, end - WINDOW, end) for name, _, end in gpu.spans if name == who)


@pytest.mark.parametrize("tier", ["high", "normal", "low"])
@pytest.mark.parametrize("limit", [100, 300, 500, 900])
def test_a_busy_step_gets_its_limit_and_at_most_one_unit_more(machine, program, policy, tier, limit):
    gpu = machine()
    gpu.join("s", policy(tier, share=100, limit=limit), program(3 * MS))
    gpu.run(3 * WINDOW)
    assert most_in_a_window(gpu, "s") <= limit * MS + 3 * MS
    assert gpu.used_ns("s", 0, 3 * WINDOW) >= 3 * (limit * MS) * 0.98


def test_it_runs_one_quantum_at_a_time_not_half_a_window(machine, program, policy):
    # Limit 0.5: 30 ms at full speed spend what half speed allows for 60.
    gpu = machine()
    gpu.join("s", policy(share=100, limit=500), program(3 * MS))
    gpu.run(299 * MS)
    assert gpu.turns() == [("s", start * MS, (start + 30) * MS) for start in (0, 60, 120, 180, 240)]


def test_what_a_limited_step_may_not_use_goes_to_its_peers(machine, program, policy):
    gpu = machine()
    gpu.join("s", policy(share=500, limit=500), program(3 * MS))
    gpu.join("t", policy(share=100), program(3 * MS))
    gpu.run(3 * WINDOW)
    assert most_in_a_window(gpu, "s") <= 503 * MS
    assert gpu.used_ns("t", 0, 3 * WINDOW) >= 3 * WINDOW * 0.49


@settings(max_examples=20, deadline=None)
@given(
    limit=st.integers(10, 999),
    unit_ns=st.integers(MS // 2, 10 * MS),
    burst=st.integers(1, 40),
    pause_ns=st.integers(0, 50 * MS),
    others=st.integers(0, 2),
)
def test_no_program_gets_more_than_its_limit_and_one_unit(
    machine, program, policy, limit, unit_ns, burst, pause_ns, others
):
    gpu = machine()
    gpu.join("s", policy(share=10, limit=limit), program(unit_ns, burst, pause_ns))
    for number in range(others):
        gpu.join(f"other-{number}", policy(share=10), program(2 * MS, 3, number * MS))
    gpu.run(1500 * MS)
    assert most_in_a_window(gpu, "s") <= limit * MS + max(unit_ns, 2 * MS)  # what a gate may have queued


def test_a_limit_is_held_by_the_time_that_leases_were_held_where_nobody_counts_device_time(machine, program, policy):
    gpu = machine(counts_device_time=False)
    gpu.join("s", policy(share=100, limit=300), program(3 * MS))
    gpu.run(3 * WINDOW)
    assert most_in_a_window(gpu, "s") <= 303 * MS
