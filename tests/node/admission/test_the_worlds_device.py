"""The virtual device that admission is measured on, and the bounds it is measured by, against values worked out by hand."""

import pytest

from admission import bounds, world
from admission.world import Delays, Unit, World

MS = 1_000_000
INSTANT = Delays((0, 0), (0, 0), (0, 0), (0, 0), 0)


def test_alone_the_high_step_never_waits(world_lib):
    outcome = world.run(world_lib, World((5 * MS,), (3_300_000,), (Unit(500_000),), policy="alone", run_ns=83 * MS))
    assert (outcome.waited_ns, outcome.high_ran_ns, outcome.wall_ns) == (0, 50 * MS, 83 * MS)


def test_plain_sharing_takes_turns_with_a_switch_between(world_lib):
    """Both always busy: 2 ms and a switch for each, so each has 2 of 4.1 ms."""
    outcome = world.run(world_lib, World((10**12,), (1,), (Unit(500_000),), policy="plain", run_ns=4_100 * MS))
    assert outcome.high_ran_ns == pytest.approx(2_000 * MS, abs=2 * MS)
    assert outcome.low_ran_ns[0] == pytest.approx(2_000 * MS, abs=2 * MS)
    assert outcome.waited_ns == outcome.wall_ns - outcome.high_ran_ns
    assert outcome.longest_wait_ns == 2_100_000


def test_a_high_step_waits_for_the_other_ones_slices_and_for_every_switch(world_lib):
    """Times in ms. High 0-2, switch, low 2.05-4.05, switch, high 4.1-6.1, switch, low 6.15-8.15, switch, high 8.2-9.2.

    It waited 4.2. Pause of 3.3; low is loaded at 9.25 and renews its slice at 11.25; high is back at 12.5, waits for the end of
    that slice at 13.25 and for the switch: 0.8.
    """
    setup = World((5 * MS,), (3_300_000,), (Unit(100 * MS),), policy="plain", delays=INSTANT, run_ns=13_300_000)
    outcome = world.run(world_lib, setup)
    assert (outcome.waited_ns, outcome.high_ran_ns) == (5 * MS, 5 * MS)
    assert outcome.low_ran_ns == (8 * MS,)
    assert outcome.longest_wait_ns == 2_100_000


@pytest.mark.parametrize(
    ("unit_ns", "design", "reachable"),
    [
        # Fit: 66 and 65 kernels, at 0 and 50 us a pause. Budget 83 us a pause of 8.3 ms. What is left goes on beside the step:
        # 3300 + 83 of 8383; 3250 + 33 of 8383.
        (50_000, 3383 / 8383, 3283 / 8383),
        # Fit: 6; a seventh costs 200, or 250 beside the 50 for the switch: 3000 + 500 x 83/200; 3000 + 500 x 33/250.
        (500_000, 3207.5 / 8383, 3066 / 8383),
        # One costs 1700; with slices 750, switch, 2000 given away, switch, 1000, switch: 1900.
        (5 * MS, 5000 * 83 / 1700 / 8383, 5000 * 83 / 1900 / 8383),
    ],
)
def test_clairvoyant_bounds_for_the_designs_example_at_one_percent(unit_ns, design, reachable):
    assert bounds.clairvoyant(5 * MS, 3_300_000, unit_ns, 0.01) == pytest.approx(design, rel=1e-6)
    assert bounds.clairvoyant(5 * MS, 3_300_000, unit_ns, 0.01, 50_000, 2 * MS) == pytest.approx(reachable, rel=1e-6)


def test_the_best_memoryless_policy_lends_whole_pauses(world_lib):
    """500 us in pauses of 3.3 ms: started 1 + e^-(550/3300) + ... = 7.01; stolen 2 x 50 + 3505 - 3300 = 305 us a pause."""
    started = 1 + sum(2.718281828459045 ** (-(50 + 500 * j) / 3300) for j in range(1, 500))
    lent = 83 / (100 + 500 * started - 3300)
    assert bounds.memoryless(5 * MS, 3_300_000, 500_000, 0.01, 50_000) == pytest.approx(
        lent * 500 * started / 8383, rel=1e-3
    )
