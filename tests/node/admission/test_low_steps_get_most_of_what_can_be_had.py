"""The targets of the frontier, in virtual time: exact and repeatable. bench/admission_frontier.py prints the whole table."""

import statistics
from dataclasses import replace

import pytest

from admission import bounds, world
from admission.world import Unit, World, exponential

MS = 1_000_000
BURST = 5 * MS
PAUSE = {30: 11_666_667, 60: 3_300_000}
UNIT = {"50 us": Unit(50_000), "500 us": Unit(500_000), "5 ms": Unit(5 * MS)}


def beside_regular(world_lib, duty, unit, bound, **more):
    return world.run(world_lib, World((BURST,), (PAUSE[duty],), (unit,), max_slowdown=bound, **more))


def test_the_designs_example(world_lib):
    """High busy 60 %, 10 x 500 us then 3.3 ms; low 500 us; 1 %: loss at most 1 %, low at least 36 % (clairvoyant 38 %)."""
    outcome = beside_regular(world_lib, 60, UNIT["500 us"], 0.01, pieces=10)
    assert outcome.loss <= 0.01
    assert outcome.low >= 0.36


@pytest.mark.parametrize("bound", [0.003, 0.01, 0.1])
@pytest.mark.parametrize("unit", UNIT)
@pytest.mark.parametrize("duty", PAUSE)
def test_regular_pauses(world_lib, duty, unit, bound):
    outcome = beside_regular(world_lib, duty, UNIT[unit], bound)
    assert outcome.loss <= bound
    reachable = bounds.clairvoyant(BURST, PAUSE[duty], UNIT[unit].takes_ns, bound, 50_000, 2 * MS)
    assert outcome.low >= 0.9 * reachable


@pytest.mark.parametrize("bound", [0.01, 0.1])
@pytest.mark.parametrize("unit", UNIT)
@pytest.mark.parametrize("duty", PAUSE)
def test_random_pauses(world_lib, duty, unit, bound):
    worlds = [
        World((BURST,), exponential(PAUSE[duty], seed), (UNIT[unit],), 30_000 * MS, max_slowdown=bound, seed=seed)
        for seed in range(1, 6)
    ]
    outcomes = [world.run(world_lib, one) for one in worlds]
    assert max(outcome.loss for outcome in outcomes) <= bound
    best = bounds.memoryless(BURST, PAUSE[duty], UNIT[unit].takes_ns, bound, 50_000)
    assert statistics.median(outcome.low for outcome in outcomes) >= 0.8 * best


def test_a_step_that_never_pauses_loses_nothing_at_the_default(world_lib):
    outcome = world.run(world_lib, World((10**12,), (1,), (UNIT["500 us"],)))
    assert (outcome.waited_ns, outcome.low) == (0, 0.0)
    assert set(outcome.reasons) == {"busy"}


@pytest.mark.parametrize("tenants", [4, 16])
def test_tenants_that_take_turns_get_together_what_one_would(world_lib, tenants):
    alone = World((BURST,), (PAUSE[60],), (UNIT["50 us"],), run_ns=20_000 * MS)
    turns = replace(alone, tenants=tenants, quantum_ns=30 * MS, bucket_ns=max(300, 3 * 30 * tenants) * MS)
    one, many = world.run(world_lib, alone), world.run(world_lib, turns)
    assert many.loss <= 0.01
    assert many.low >= 0.9 * one.low
    assert min(many.low_ran_ns) >= 0.8 * max(many.low_ran_ns)
