"""The account of device time: compared with a list of intervals that is simply added up."""

from hypothesis import given
from hypothesis import strategies as st

from pillion.scheduling.arbiter.window import BUCKETS, Usage, add, below_at_ns, shifted, used_ns

WINDOW = 1_280_000
PART = WINDOW // BUCKETS

spells = st.lists(
    st.tuples(st.integers(0, 3 * PART), st.integers(1, 5 * PART), st.floats(0, 1)), min_size=1, max_size=30
)


def write_down(spells):
    """Turn (gap, length, fraction used) into an account and the same as intervals."""
    usage, intervals, now = Usage(), [], 0
    for gap, length, fraction in spells:
        since, until = now + gap, now + gap + length
        spent = int(length * fraction)
        usage = add(usage, since, until, spent, WINDOW)
        intervals.append((since, until, spent))
        now = until
    return usage, intervals, now


def exactly(intervals, since, until):
    return sum(spent * max(0, min(end, until) - max(start, since)) / (end - start) for start, end, spent in intervals)


@given(spells, st.integers(0, 2 * WINDOW))
def test_a_sum_is_never_too_small_and_at_most_one_part_too_large(spells, later):
    usage, intervals, end = write_down(spells)
    now = end + later
    exact = exactly(intervals, now - WINDOW, now)
    rounding = len(intervals)  # a nanosecond for each interval
    assert exact - rounding <= used_ns(usage, now, WINDOW) <= exact + PART + rounding


@given(spells, st.integers(1, WINDOW))
def test_the_time_at_which_it_falls_below_a_target_is_the_first_such_time(spells, target):
    usage, _, end = write_down(spells)
    when = below_at_ns(usage, target, WINDOW)
    assert used_ns(usage, max(when, end), WINDOW) < target
    if when > end:
        assert used_ns(usage, when - 1, WINDOW) >= target


@given(spells)
def test_it_stays_small_and_forgets_nothing_that_counts(spells):
    usage, intervals, _ = write_down(spells * 20)
    assert len(usage.parts) <= BUCKETS + 2
    assert usage.total_ns == sum(spent for _, _, spent in intervals)


@given(spells, st.integers(-100, 100))
def test_setting_the_clock_changes_no_sum(spells, parts):
    usage, _, end = write_down(spells)
    moved = shifted(usage, parts * PART, WINDOW)
    assert used_ns(moved, end + parts * PART, WINDOW) == used_ns(usage, end, WINDOW)


def test_time_that_is_not_spent_leaves_no_trace():
    assert (
        add(Usage(), 0, 100, 0, WINDOW)
        == add(Usage(), 100, 100, 5, WINDOW)
        == add(Usage(), 0, 9, -5, WINDOW)
        == Usage()
    )


def test_one_spell_is_spread_over_the_parts_it_touches():
    # Half-used from the middle of part 0 to the middle of part 2: a quarter of a part, a half, a quarter.
    usage = add(Usage(), PART // 2, 2 * PART + PART // 2, PART, WINDOW)
    assert usage == Usage(parts=(0, 1, 2), before_ns=(0, PART // 4, 3 * PART // 4), total_ns=PART)
