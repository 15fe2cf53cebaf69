"""Device time used over a sliding window, in a small frozen value.

The window is cut into `BUCKETS` parts, and only parts in which time was used are kept, each with the total before it,
so that asking costs a binary search. The oldest part counts until all of it has left the window: a sum is never too
small, and at most one part (0.8 % of the window) too large.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

BUCKETS = 128


class Usage(NamedTuple):
    """Time used, by parts of the window.

    Attributes:
        parts: Which parts of time, counted from the clock's zero; ascending.
        before_ns: For each, what had been used before it.
        total_ns: What has been used in all.
    """

    parts: tuple[int, ...] = ()
    before_ns: tuple[int, ...] = ()
    total_ns: int = 0


def _part_ns(window_ns: int) -> int:
    return max(1, window_ns // BUCKETS)


def used_ns(usage: Usage, now_ns: int, window_ns: int) -> int:
    """Return what was used in the window that ends now."""
    first = bisect_left(usage.parts, (now_ns - window_ns) // _part_ns(window_ns))
    return usage.total_ns - usage.before_ns[first] if first < len(usage.parts) else 0


def add(usage: Usage, since_ns: int, until_ns: int, spent_ns: int, window_ns: int) -> Usage:
    """Return the usage with `spent_ns` more, spread evenly over the time from `since_ns` to `until_ns`."""
    if spent_ns <= 0 or until_ns <= since_ns:
        return usage
    part_ns = _part_ns(window_ns)
    if usage.parts and usage.parts[-1] >= (until_ns - 1) // part_ns:
        return Usage(usage.parts, usage.before_ns, usage.total_ns + spent_ns)
    oldest = bisect_left(usage.parts, (until_ns - window_ns) // part_ns)
    parts, before = list(usage.parts[oldest:]), list(usage.before_ns[oldest:])
    base_ns, total = usage.total_ns, usage.total_ns
    for part in range(since_ns // part_ns, (until_ns - 1) // part_ns + 1):
        if not parts or parts[-1] < part:
            parts.append(part)
            before.append(total)
        passed_ns = min((part + 1) * part_ns, until_ns) - since_ns
        total = base_ns + spent_ns * passed_ns // (until_ns - since_ns)
    return Usage(tuple(parts), tuple(before), total)


def below_at_ns(usage: Usage, target_ns: int, window_ns: int) -> int:
    """Return when the window's sum will be below `target_ns` (above 0) if nothing more is used."""
    gone = bisect_left(usage.before_ns, usage.total_ns - target_ns + 1)
    if gone == 0:
        return 0
    return (usage.parts[gone - 1] + 1) * _part_ns(window_ns) + window_ns


def shifted(usage: Usage, by_ns: int, window_ns: int) -> Usage:
    """Return the usage as it looks to a clock that was set forward by `by_ns` (back, if negative)."""
    parts = by_ns // _part_ns(window_ns)
    return usage._replace(parts=tuple(part + parts for part in usage.parts))
