"""What a low step gets beside a high one, through the gate, on the emulated GPU; and what that costs the high one.

High: bursts of 10 kernels of 500 us, each waited for, then a pause of 3.3 ms (60 % busy). Low: always busy. Loss: the
time that the GPU kept the high step waiting, as the device counts it, over the time that it ran. Speed: the low step's
device time over the time that passed.

Run: python bench/gate_beside_high.py [--repetitions 5] [--seconds 4] [--slowdown 0.01] [--json]
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
from pillion_node import emulator
from pillion_node.pages import GateTier

LOADS = {
    "50 us": ("k_50us", 40, 0),
    "500 us": ("k_500us", 8, 0),
    "5 ms": ("k_5ms", 2, 0),
    "graph of 20 x 500 us": ("k_500us", 2, 20),
}


def _start(program: Path, environment: dict[str, str], *arguments: object) -> subprocess.Popen[str]:
    process = subprocess.Popen([str(program), *map(str, arguments)], env=environment, text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    return process


def once(folder: Path, name: str, seconds: float, slowdown: float | None) -> tuple[float, float]:
    """Run both together. Return the high step's loss and the low one's speed; `slowdown` None: without the gate."""
    gate = build_gate(folder)
    driver = emulator.library_directory() / "libcuda.so.1"
    program = compile_program("workload.c", folder / "workload", str(driver))
    kernel, burst, nodes = LOADS[name]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        machine = emulator.create(Path(place) / "gpu")
        environment = emulator.environment(machine)
        agent = None
        if slowdown is not None:
            terms = {"max_slowdown_ppm": int(slowdown * 1e6)}
            agent = SmallAgent(
                gate, Path(place) / "s", lambda n: terms | {"tier": GateTier.LOW if n else GateTier.HIGH}
            )
            environment |= {"LD_PRELOAD": str(gate), "PILLION_SOCKET": str(agent.path)}
        high = _start(program, environment, "k_500us", 10, 3_300_000, seconds)
        if agent is not None:
            agent.member(0)
        low = _start(program, environment, kernel, burst, 0, seconds + 1, nodes)
        if agent is not None:
            agent.member(1).watch(agent.member(0), 0)
        for process in (low, high):
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        with emulator.Machine.open(machine) as opened:
            before = opened.snapshot()
            high.wait()
            after = opened.snapshot()
        low.kill()
        low.wait()
        passed_ns = after.clock_ns - before.clock_ns
        waited_ns = _of(after, high).wait_ns - _of(before, high).wait_ns
        return waited_ns / (passed_ns - waited_ns), (_of(after, low).busy_ns - _of(before, low).busy_ns) / passed_ns


def _of(device: emulator.DeviceSnapshot, process: subprocess.Popen[str]) -> emulator.ContextSnapshot:
    return next(context for context in device.contexts if context.pid == process.pid)


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--slowdown", type=float, default=0.01)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    os.environ.pop("PILLION_SOCKET", None)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in (name for name in LOADS if given.only in name):
            for how, slowdown in (("plain sharing", None), ("through the gate", given.slowdown)):
                results = [once(Path(folder), name, given.seconds, slowdown) for _ in range(given.repetitions)]
                losses, speeds = zip(*results, strict=True)
                rows.append({"low's kernels": name, "how": how, "loss": statistics.median(losses),
                             "loss_most": max(losses), "speed": statistics.median(speeds),
                             "speed_least": min(speeds)})  # fmt: skip
    if given.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'low submits':<24}{'how':<20}{'loss of high':>14}{'most':>8}{'speed of low':>14}{'least':>8}")
    for row in rows:
        print(f"{row['low' + chr(39) + 's kernels']:<24}{row['how']:<20}{row['loss']:>13.2%}{row['loss_most']:>9.2%}"
              f"{row['speed']:>13.1%}{row['speed_least']:>9.1%}")  # fmt: skip


if __name__ == "__main__":
    main()
