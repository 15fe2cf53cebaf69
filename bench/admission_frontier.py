"""The frontier: what low steps get beside a high one at each max-slowdown, and what could be had at most.

A device in virtual time (bench/admission/world.h), the decision exactly as the gate makes it. The high step works for
5 ms and pauses; the low ones always have something to submit. For each case the median over the seeds and the range:
the high step's loss, the low steps' speed, beside the clairvoyant bound without and with the device's switches and
slices (regular pauses) or the best memoryless policy (random ones).

Run: python bench/admission_frontier.py [--seeds 5] [--seconds 20] [--only SUBSTRING] [--json]
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import json
import statistics
from collections.abc import Iterator
from itertools import product

from admission import bounds
from admission.world import Delays, Outcome, Unit, World, exponential, load_fresh, run

MS = 1_000_000
BURST_NS = 5 * MS
DUTIES = {"30%": 11_666_667, "60%": 3_300_000, "95%": 263_158}
UNITS = {"50 us": Unit(50_000), "500 us": Unit(500_000), "5 ms": Unit(5 * MS), "graph": Unit(10 * MS, nodes=20)}
BOUNDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.5)
MAX_STALL_NS = 20 * MS  # the default, 10 ms, is less than the graph takes
KINDS = ("regular", "random")
QUANTUM_NS = 30 * MS
SLUGGISH = Delays((20_000, 100_000), (5_000, 30_000), (0, 20_000), (20_000, 100_000), 8_000)


@dataclasses.dataclass(frozen=True)
class Case:
    """One row: its name, its worlds by seed, and what could be had."""

    name: str
    world: World
    regular: bool
    design: float | None
    reachable: float

    def seeded(self, seed: int) -> World:
        """Return this case's world for one seed."""
        pauses = self.world.pauses_ns
        if not self.regular:
            pauses = exponential(pauses[0], seed)
        return dataclasses.replace(self.world, seed=seed, pauses_ns=pauses)


def case(duty: str, kind: str, unit: str, bound: float, how: str = "", **more: object) -> Case:
    """Put one row together; `more` are fields of its world, and `how` says what they are."""
    pause_ns, submission = DUTIES[duty], UNITS[unit]
    world = World((BURST_NS,), (pause_ns,), (submission,), max_slowdown=bound, max_stall_ns=MAX_STALL_NS)
    world = dataclasses.replace(world, **more)
    load = (BURST_NS, pause_ns, submission.takes_ns, bound)
    if kind == "regular":
        design = bounds.clairvoyant(*load)
        reachable = bounds.clairvoyant(*load, world.switch_ns, world.slice_ns)
    else:
        design, reachable = None, bounds.memoryless(*load, world.switch_ns)
    name = f"{bound * 100:g}% {duty} {kind} {unit} {how}".strip()
    return Case(name, world, kind == "regular", design, reachable)


def cases() -> Iterator[Case]:
    """List every row of the table."""
    for bound, duty, kind, unit in product(BOUNDS, DUTIES, KINDS, UNITS):
        yield case(duty, kind, unit, bound)
    for bound, kind, unit in product((0.01, 0.1), KINDS, UNITS):
        yield case("60%", kind, unit, bound, "slices unknown", told_slice_ns=0)
    for bound, kind, unit in product((0.01, 0.1), KINDS, UNITS):
        yield case("60%", kind, unit, bound, "sluggish host", delays=SLUGGISH)
    for tenants, bound, kind, unit in product((4, 16), (0.01, 0.1), KINDS, ("50 us", "500 us")):
        cycle_ns = tenants * QUANTUM_NS
        turns = {"tenants": tenants, "quantum_ns": QUANTUM_NS, "bucket_ns": max(300 * MS, 3 * cycle_ns)}
        yield case("60%", kind, unit, bound, f"{tenants} in turn", **turns)
        yield case("60%", kind, unit, bound, f"{tenants} at once", tenants=tenants)


def spread(values: list[float]) -> str:
    """Return median and range, in percent."""
    return f"{statistics.median(values) * 100:6.2f} [{min(values) * 100:5.2f} {max(values) * 100:5.2f}]"


def part(value: float, of: float | None) -> str:
    """Return what part of the bound was reached."""
    return f"{value / of * 100:4.0f}%" if of else "    –"


def measure(lib: ctypes.CDLL, row: Case, seeds: int, seconds: float) -> list[Outcome]:
    """Run one row with every seed."""
    worlds = (dataclasses.replace(row.seeded(seed + 1), run_ns=int(seconds * 1e9)) for seed in range(seeds))
    return [run(lib, world) for world in worlds]


COSTS = (
    "no high step about",
    "beside an idle one, enough in flight",
    "beside an idle one, the next unit due",
    "beside an idle one, first of the pause",
    "beside a busy one",
)


def cost(lib: ctypes.CDLL) -> dict[str, float]:
    """Return what a call takes, in nanoseconds: the median of nine runs."""
    rounds = []
    for _ in range(9):
        taken = (ctypes.c_double * len(COSTS))()
        lib.world_cost(ctypes.c_uint64(200_000), taken)
        rounds.append(list(taken))
    medians = map(statistics.median, zip(*rounds, strict=True))
    return dict(zip(COSTS, medians, strict=True))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    lib = load_fresh()
    if not options.json:
        print(f"{'max-slowdown, duty, pauses, units':42} {'loss of high %':22} {'low %':22} {'bound':>6} {'of it':>5} "
              f"{'reach':>6} {'of it':>5}")  # fmt: skip
    for row in cases():
        if options.only not in row.name:
            continue
        outcomes = measure(lib, row, options.seeds, options.seconds)
        losses, lows = [o.loss for o in outcomes], [o.low for o in outcomes]
        low = statistics.median(lows)
        if options.json:
            print(json.dumps({"case": row.name, "bound": row.world.max_slowdown, "loss": losses, "low": lows,
                              "design": row.design, "reachable": row.reachable,
                              "longest_wait_ns": [o.longest_wait_ns for o in outcomes]}))  # fmt: skip
            continue
        over = "  OVER" if max(losses) > row.world.max_slowdown else ""
        design = f"{row.design * 100:6.2f}" if row.design is not None else "     –"
        print(f"{row.name:42} {spread(losses):22} {spread(lows):22} {design} {part(low, row.design)} "
              f"{row.reachable * 100:6.2f} {part(low, row.reachable)}{over}", flush=True)  # fmt: skip
    if not options.only and not options.json:
        for name, taken_ns in cost(lib).items():
            print(f"admit_decide, {name}: {taken_ns:.1f} ns")


if __name__ == "__main__":
    main()
