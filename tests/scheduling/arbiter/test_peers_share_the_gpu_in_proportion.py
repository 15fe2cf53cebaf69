"""Two and more busy steps of one tier: each window has their shares in it, whatever their work looks like."""

import pytest

MS = 1_000_000
WINDOW_NS = 1000 * MS


def worst_error(machine, shares, until_ns, *, since_ns=0, step_ns=7 * MS):
    """Largest distance, in points, between a tenant's part of the time used and its share, over all windows."""
    worst = 0.0
    for start in range(since_ns, until_ns - WINDOW_NS + 1, step_ns):
        used = {who: machine.used_ns(who, start, start + WINDOW_NS) for who in shares}
        total = sum(used.values())
        worst = max(worst, *(abs(used[who] / total - shares[who]) * 100 for who in shares))
    return worst


@pytest.mark.parametrize(
    ("first_unit_ns", "second_unit_ns"),
    [
        (MS // 2, MS // 2),
        (5 * MS, 5 * MS),
        (10 * MS, 10 * MS),
        (10 * MS, MS // 2),
        (MS // 2, 10 * MS),
        (7 * MS, 3 * MS),
    ],
)
def test_seven_to_three_holds_within_two_points_over_every_second(
    machine, program, policy, first_unit_ns, second_unit_ns
):
    gpu = machine()
    gpu.join("a", policy(share=700), program(first_unit_ns))
    gpu.join("b", policy(share=300), program(second_unit_ns))
    gpu.run(3000 * MS)
    assert worst_error(gpu, {"a": 0.7, "b": 0.3}, 3000 * MS) <= 2
