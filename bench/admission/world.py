"""The virtual-time world of world.c, from Python: build it, set it up, run it."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    *sorted((ROOT / "nodeagent" / "gate").glob("admit*.c")),
    *sorted((ROOT / "bench" / "admission").glob("*.c")),
]
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
TENANTS, SAMPLES, REASONS = 16, 4096, 11
REASON_NAMES = [
    "no-high", "fits", "no-lease", "full", "one-at-a-time", "overdue", "fed", "stall", "busy", "price", "credit",
]  # fmt: skip
POLICIES = {"admit": 0, "alone": 1, "plain": 2}

Word = ctypes.c_uint64
Words = ctypes.POINTER(Word)
Range = Word * 2

# The fields of struct world_setup and world_result in their order; the sizes are compared when the library is loaded.
SETUP_FIELDS = [
    ("seed", Word), ("run_ns", Word), ("policy", Word), ("tenants", Word), ("slice_ns", Word), ("switch_ns", Word),
    ("turns", Word), ("pieces", Word), ("gap_ns", Word), ("overlooks", Word), ("bursts_ns", Words),
    ("pauses_ns", Words), ("units", Word), ("spite_ppm", Word), ("unit_ids", Words), ("unit_nodes", Words),
    ("units_ns", Words),
    ("max_slowdown_ppm", Word), ("max_stall_ns", Word), ("bucket_ns", Word), ("told_slice_ns", Word),
    ("told_switch_ns", Word), ("quantum_ns", Word),
    ("notice_ns", Range), ("reap_ns", Range), ("stamp_ns", Range), ("wake_ns", Range), ("launch_ns", Word),
]  # fmt: skip
RESULT_FIELDS = [
    ("wall_ns", Word), ("high_ran_ns", Word), ("high_waited_ns", Word), ("longest_wait_ns", Word), ("bursts", Word),
    ("low_ran_ns", Word * TENANTS), ("most_queued_ns", Word * TENANTS), ("charged_ns", Word), ("decisions", Word),
    ("reasons", Word * REASONS), ("samples", Word), ("sample_every_ns", Word), ("waited_ns", Word * SAMPLES),
]  # fmt: skip


class _Setup(ctypes.Structure):
    _fields_ = SETUP_FIELDS


class _Result(ctypes.Structure):
    _fields_ = RESULT_FIELDS


@dataclass(frozen=True)
class Unit:
    """One kind of submission: what admission is told about it, and how long it really takes."""

    takes_ns: int
    id: int = 1
    nodes: int = 1


@dataclass(frozen=True)
class Delays:
    """What the tenants of a real machine would see late; each is drawn between two bounds, in nanoseconds."""

    notice_ns: tuple[int, int] = (5_000, 40_000)
    reap_ns: tuple[int, int] = (1_000, 5_000)
    stamp_ns: tuple[int, int] = (0, 2_000)
    wake_ns: tuple[int, int] = (1_000, 10_000)
    launch_ns: int = 4_000


@dataclass(frozen=True)
class World:
    """A high step (bursts and the pauses after them, in turn) and low tenants that always have something to submit."""

    bursts_ns: tuple[int, ...]
    pauses_ns: tuple[int, ...]
    units: tuple[Unit, ...]
    run_ns: int = 10_000_000_000
    policy: str = "admit"
    tenants: int = 1
    seed: int = 1
    slice_ns: int = 2_000_000
    switch_ns: int = 50_000
    pieces: int = 1
    gap_ns: int = 0
    overlooks: bool = False
    spite: float = 1.0
    max_slowdown: float = 0.01
    max_stall_ns: int = 10_000_000
    bucket_ns: int = 300_000_000
    told_slice_ns: int = 2_000_000
    told_switch_ns: int = 50_000
    quantum_ns: int = 0
    delays: Delays = field(default_factory=Delays)


@dataclass(frozen=True)
class Outcome:
    """What happened: times in nanoseconds of device or wall time."""

    wall_ns: int
    high_ran_ns: int
    waited_ns: int
    longest_wait_ns: int
    low_ran_ns: tuple[int, ...]
    most_queued_ns: tuple[int, ...]
    charged_ns: int
    reasons: dict[str, int]
    waited_at_ns: tuple[int, ...]
    sample_every_ns: int

    @property
    def loss(self) -> float:
        """Time that the high step was kept waiting, as a part of what it would have taken alone."""
        return self.waited_ns / (self.wall_ns - self.waited_ns)

    @property
    def low(self) -> float:
        """Device time of all low tenants, as a part of what one of them would have alone."""
        return sum(self.low_ran_ns) / self.wall_ns

    def windows(self, window_ns: int) -> list[tuple[int, int]]:
        """Return `waited_ns` at the beginning and the end of every window of that length, as far as it was sampled."""
        width = max(1, window_ns // self.sample_every_ns)
        waited = (0, *self.waited_at_ns)
        return list(zip(waited, waited[width:], strict=False))


def exponential(mean_ns: float, seed: int, count: int = 20_011) -> tuple[int, ...]:
    """Draw `count` memoryless pauses."""
    draw = random.Random(seed)
    return tuple(int(draw.expovariate(1 / mean_ns)) + 1 for _ in range(count))


def compiler() -> list[str]:
    """Return the C compiler's command: $CC, the system's, or the `ziglang` wheel's."""
    if os.environ.get("CC"):
        return [os.environ["CC"]]
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    return [sys.executable, "-m", "ziglang", "cc"]


def build(folder: Path, *options: str) -> Path:
    """Compile admission and the world into one shared object in `folder`."""
    library = folder / "world.so"
    command = [
        *compiler(),
        *WARNINGS,
        *(options or ("-O2",)),
        "-shared",
        "-fPIC",
        "-o",
        str(library),
        *map(str, SOURCES),
    ]
    subprocess.run(command, check=True)
    return library


def load(library: Path) -> ctypes.CDLL:
    """Load what `build` made; the mirrored structures must have its sizes."""
    lib = ctypes.CDLL(str(library))
    lib.world_setup_size.restype = lib.world_result_size.restype = ctypes.c_size_t
    sizes = (lib.world_setup_size(), lib.world_result_size())
    if sizes != (ctypes.sizeof(_Setup), ctypes.sizeof(_Result)):
        raise RuntimeError(f"world.h has structures of {sizes} bytes, world.py has others: bring them in line")
    return lib


def load_fresh() -> ctypes.CDLL:
    """Build into a temporary folder and load."""
    with tempfile.TemporaryDirectory() as folder:
        return load(build(Path(folder)))


def _words(values: list[int] | tuple[int, ...]) -> ctypes.Array[ctypes.c_uint64]:
    return (Word * len(values))(*values)


def run(lib: ctypes.CDLL, world: World) -> Outcome:
    """Let the world run, and say what happened."""
    turns = max(len(world.bursts_ns), len(world.pauses_ns))
    bursts, pauses = (_words(list(islice(cycle(values), turns))) for values in (world.bursts_ns, world.pauses_ns))
    ids, nodes, takes = (_words([getattr(unit, name) for unit in world.units]) for name in ("id", "nodes", "takes_ns"))
    delays = world.delays
    setup = _Setup(
        world.seed, world.run_ns, POLICIES[world.policy], world.tenants, world.slice_ns, world.switch_ns,
        turns, world.pieces, world.gap_ns, world.overlooks, bursts, pauses,
        len(world.units), round(world.spite * 1e6), ids, nodes, takes,
        round(world.max_slowdown * 1e6), world.max_stall_ns, world.bucket_ns, world.told_slice_ns, world.told_switch_ns,
        world.quantum_ns, Range(*delays.notice_ns), Range(*delays.reap_ns), Range(*delays.stamp_ns),
        Range(*delays.wake_ns), delays.launch_ns,
    )  # fmt: skip
    result = _Result()
    lib.world_run(ctypes.byref(setup), ctypes.byref(result))
    return Outcome(
        result.wall_ns, result.high_ran_ns, result.high_waited_ns, result.longest_wait_ns,
        tuple(result.low_ran_ns[: world.tenants]), tuple(result.most_queued_ns[: world.tenants]), result.charged_ns,
        {name: count for name, count in zip(REASON_NAMES, result.reasons, strict=True) if count},
        tuple(result.waited_ns[: result.samples]), result.sample_every_ns,
    )  # fmt: skip
