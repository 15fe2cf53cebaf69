"""What the gate adds to a launch, in nanoseconds: the same launch through it and past it, by turns in one process.

The driver is one whose calls cost nothing (bench/gate/null_driver.c). Open: nobody else is on the GPU. High: lower
tiers are about, so activity is marked; it synchronises every 100 launches. Low: its launches are counted, and an event
follows each.

Run: python bench/gate_cost.py [--repetitions 15] [--launches 200000] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from gate.setting import SmallAgent, build_gate, compile_program
from pillion_node.pages import GateTier

CASES = {
    "no agent": (None, False, 0),
    "alone, gate open": (GateTier.LOW, True, 0),
    "high, lower tiers about": (GateTier.HIGH, False, 100),
    "low, no high about, capped": (GateTier.LOW, False, 0),
}


def measure(case: str, folder: Path, repetitions: int, launches: int) -> list[tuple[float, float]]:
    """Return pairs of nanoseconds per launch, past the gate and through it."""
    tier, is_open, per_sync = CASES[case]
    gate, driver = (
        build_gate(folder),
        compile_program("null_driver.c", folder / "null" / "libcuda.so.1", "-shared", "-fPIC"),
    )
    program = compile_program("cost.c", folder / "cost")
    environment = dict(os.environ) | {"LD_PRELOAD": str(gate), "LD_LIBRARY_PATH": str(driver.parent)}
    environment.pop("PILLION_SOCKET", None)
    agent = None
    if tier is not None:
        agent = SmallAgent(
            gate, folder / f"{tier.name}{is_open}", lambda _: {"tier": tier, "in_flight_cap": 16, "open": int(is_open)}
        )
        environment["PILLION_SOCKET"] = str(agent.path)
    with subprocess.Popen([str(program), str(repetitions), str(launches), str(per_sync)], env=environment, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        if agent is not None:
            agent.member(0)
        out = process.communicate("\n")[0]
    return [(float(past), float(through)) for past, through in map(str.split, out.splitlines())]


def main() -> None:
    """Measure all cases and print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--launches", type=int, default=200_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            pairs = measure(case, Path(folder), given.repetitions, given.launches)
            added = sorted(through - past for past, through in pairs)
            rows.append({"case": case, "past_ns": statistics.median(past for past, _ in pairs),
                         "through_ns": statistics.median(through for _, through in pairs),
                         "added_ns": statistics.median(added), "added_least_ns": added[0], "added_most_ns": added[-1],
                         "repetitions": len(pairs)})  # fmt: skip
    if given.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'case':<28}{'past':>8}{'through':>9}{'added':>8}   least ... most, ns a launch")
    for row in rows:
        print(f"{row['case']:<28}{row['past_ns']:>8.1f}{row['through_ns']:>9.1f}{row['added_ns']:>8.1f}"
              f"   {row['added_least_ns']:.1f} ... {row['added_most_ns']:.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
