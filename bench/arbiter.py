"""How long the arbiter takes to decide: one GPU with 4, 32 and 1,000 tenants, and 8 GPUs with 4 tenants each.

The states are taken from the middle of a run, 1 ms apart, when accounts are full and turns end. Processor time, median.
Goal: under 100 µs for 4 tenants. The agent may use 3 % of a core for 8 GPUs with 32 clients; the last line says how
much of that this is. Run: python bench/arbiter.py
"""

import statistics
import time

from pillion.policy import Memory, OnPreempt, Policy, Tier
from pillion.scheduling.arbiter import Gpu, Report, State, Tenant, decide

GIB = 1 << 30
MS = 1_000_000
WARM_UP, ROUNDS = 300, 300
DECISIONS_PER_SECOND = (
    100  # per GPU, with turns of 21 and 9 ms: two for each end of a turn, and some for work that comes and goes
)


def tenant(number: int, tenants: int) -> Tenant:
    """Return one of a mix: a high step, then normal and low ones by turns."""
    tier = Tier.HIGH if number == 0 else (Tier.NORMAL, Tier.LOW)[number % 2]
    high = tier is Tier.HIGH
    policy = Policy(
        share_milli=None if tier is Tier.LOW else max(1, 900 // tenants),
        limit_milli=1000 if number % 3 else 500,
        memory=Memory(GIB, "1Gi"),
        tier=tier,
        max_slowdown_ppm=10_000 if high else None,
        max_stall_ns=10 * MS if high else None,
        on_preempt=OnPreempt.WAIT,
        container=None,
    )
    return Tenant(f"tenant-{number:04}", policy)


def states(tenants: int) -> list[tuple[State, int]]:
    """Return consecutive states of a GPU whose tenants mostly have work, and their times."""
    state = State(Gpu(memory_bytes=80 * GIB), tuple(tenant(number, tenants) for number in range(tenants)))
    seen = []
    for round_number in range(WARM_UP + ROUNDS):
        now_ns = (round_number + 1) * MS
        state = state.reported(
            {
                each.id: Report(
                    runnable=(round_number // 5 + index) % 4 != 0,
                    in_flight=(round_number + index) % 3 if each.standing.lease.charged else 0,
                    acknowledged_epoch=each.standing.lease.epoch,
                    device_ns=(each.standing.device_ns or 0) + (900_000 if each.standing.lease.charged else 0),
                )
                for index, each in enumerate(state.tenants)
            }
        )
        seen.append((state, now_ns))
        state = decide(state, now_ns).state
    return seen[WARM_UP:]


def microseconds(gpus: int, tenants: int) -> float:
    """Return the median time of a round in which each of `gpus` is decided once."""
    taken = []
    for state, now_ns in states(tenants):
        began = time.thread_time_ns()
        for _ in range(gpus):
            decide(state, now_ns)
        taken.append((time.thread_time_ns() - began) / 1e3)
    return statistics.median(taken)


def main() -> None:
    """Print the medians."""
    print(f"median of {ROUNDS} rounds, µs")
    for gpus, tenants, goal in ((1, 4, "goal 100"), (8, 4, ""), (1, 32, ""), (1, 1000, "")):
        print(f"{gpus} GPU x {tenants:4} tenants {microseconds(gpus, tenants):10.1f}  {goal}")
    core = microseconds(8, 4) * DECISIONS_PER_SECOND / 1e6
    print(f"8 GPUs x 4 tenants at {DECISIONS_PER_SECOND} decisions a second each: {core:.1%} of a core")


if __name__ == "__main__":
    main()
