"""In virtual time, against the device's own count of how long the high step was kept waiting.

The inequality (docs/admission.md derives it): over a run of T from its start

    waited(T)  <=  T * s / (1 + s)  +  what is in flight at the last admission, with the switches that it causes

because no unit is admitted unless all that was stolen so far has been earned. What is in flight then is `most_queued_ns` at most.
Over any window there comes the credit saved before it: one bucket, or what one unit was saved for.
"""

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from admission import world
from admission.world import Delays, Unit, World

MS = 1_000_000
US = 1_000


def in_flight_at_last(outcome, setup):
    """Time that the work in flight at the last admission can take from the high step."""
    turns = (queued_ns // setup.slice_ns + 2 for queued_ns in outcome.most_queued_ns)
    return sum(outcome.most_queued_ns) + sum(2 * setup.switch_ns * turn for turn in turns)


def earned(setup, span_ns):
    return span_ns * setup.max_slowdown / (1 + setup.max_slowdown)


bursts = st.lists(st.integers(200 * US, 20 * MS), min_size=1, max_size=12).map(tuple)
pauses = st.lists(st.integers(1, 30 * MS) | st.integers(1, 300 * US), min_size=1, max_size=12).map(tuple)
lengths = st.integers(1, 200 * US) | st.integers(1, 8 * MS) | st.sampled_from([50 * US, 500 * US, 2 * MS, 5 * MS])
# Few names for many lengths: durations lie, are bimodal, have long tails. Many names: always something new.
units = st.lists(
    st.builds(Unit, lengths, id=st.integers(1, 3) | st.integers(1, 2**64 - 1), nodes=st.sampled_from([1, 1, 20])),
    min_size=1,
    max_size=40,
).map(tuple)
delays = st.sampled_from([
    Delays(),
    Delays((0, 0), (0, 0), (0, 0), (0, 0), 500),
    Delays((20_000, 100_000), (5_000, 100_000), (0, 20_000), (20_000, 100_000), 8_000),
])  # fmt: skip
worlds = st.builds(
    World, bursts, pauses, units,
    run_ns=st.just(800 * MS), seed=st.integers(1, 10**6), tenants=st.sampled_from([1, 1, 2, 4, 16]),
    max_slowdown=st.sampled_from([0.001, 0.01, 0.02, 0.1, 0.5]), max_stall_ns=st.sampled_from([100 * US, 10 * MS, 1_000 * MS]),
    spite=st.sampled_from([1.0, 1.0, 0.1, 3.0]), delays=delays, quantum_ns=st.sampled_from([0, 30 * MS]),
)  # fmt: skip


def holds(world_lib, setup):
    outcome = world.run(world_lib, setup)
    assert outcome.waited_ns <= earned(setup, outcome.wall_ns) + in_flight_at_last(outcome, setup)
    return outcome


@settings(max_examples=60, deadline=None)
@given(setup=worlds)
def test_with_exact_marks_and_slices_known(world_lib, setup):
    holds(world_lib, setup)


@settings(max_examples=60, deadline=None)
@given(setup=worlds, pieces=st.sampled_from([1, 3, 20]), gap_ns=st.integers(0, 2 * MS))
def test_with_slices_unknown_beside_a_step_that_overlooks_its_own_pauses(world_lib, setup, pieces, gap_ns):
    holds(world_lib, dataclasses.replace(setup, told_slice_ns=0, overlooks=True, pieces=pieces, gap_ns=gap_ns))


@settings(max_examples=30, deadline=None)
@given(setup=worlds, window_ns=st.sampled_from([100 * MS, 500 * MS]))
def test_over_any_window_there_comes_what_was_saved_before(world_lib, setup, window_ns):
    outcome = world.run(world_lib, setup)
    stolen = max(later - earlier for earlier, later in outcome.windows(window_ns))
    saved_ns = 10 * earned(setup, setup.bucket_ns)
    sampled_ns = window_ns + 2 * outcome.sample_every_ns
    assert stolen <= earned(setup, sampled_ns) + saved_ns + in_flight_at_last(outcome, setup)


@settings(max_examples=30, deadline=None)
@given(setup=worlds)
def test_all_that_was_stolen_was_charged(world_lib, setup):
    """But for what is in flight at the end, the books never show less than the device does."""
    outcome = world.run(world_lib, setup)
    assert outcome.waited_ns <= outcome.charged_ns + in_flight_at_last(outcome, setup)


@settings(max_examples=20, deadline=None)
@given(setup=worlds, pause_ns=st.integers(5 * MS, 40 * MS))
def test_nobody_starves_beside_a_step_that_pauses(world_lib, setup, pause_ns):
    """Short kernels, pauses that hold them, a bound of 1 %: every tenant gets something."""
    setup = dataclasses.replace(
        setup, bursts_ns=(5 * MS,), pauses_ns=(pause_ns,), units=(Unit(500 * US),), max_slowdown=0.01, spite=1.0,
        max_stall_ns=10 * MS, bucket_ns=1_500 * MS, run_ns=3_000 * MS,
    )  # fmt: skip
    assert min(world.run(world_lib, setup).low_ran_ns) > 0
