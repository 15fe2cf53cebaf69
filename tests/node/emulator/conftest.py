"""Emulated machines for the tests, the device model alone, and a second, independent computation of what it should do."""

import contextlib
import ctypes
import importlib.util
import json
import mmap
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pillion_node import emulator
from pillion_node.emulator.layout import library, library_directory, tables
from pillion_node.emulator.snapshot import DeviceRecord, read_device, read_history, read_inputs

if not (library_directory() / "libcuda.so.1").is_file():
    pytest.skip("the emulated GPU is not built here (Linux only: install pillion-node)", allow_module_level=True)


@pytest.fixture
def machine_at():
    """A function that makes a machine from options, and its path; all are removed afterwards."""
    made = []
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:

        def make(**options):
            path = Path(folder) / f"gpu-{len(made)}"
            made.append(emulator.create(path, emulator.MachineOptions(**options)))
            return path

        yield make


@pytest.fixture
def machine(machine_at):
    """A machine with one GPU of 1 GiB."""
    return machine_at(memory_bytes=1 << 30)


PRELUDE = """
import json, os, signal, sys, time
from cuda.bindings import driver as d
def ok(result):
    assert result[0] == d.CUresult.CUDA_SUCCESS, result[0]
    return None if len(result) == 1 else result[1] if len(result) == 2 else result[1:]
def context(ordinal=0):
    ok(d.cuInit(0))
    ok(d.cuCtxSetCurrent(ok(d.cuDevicePrimaryCtxRetain(ok(d.cuDeviceGet(ordinal))))))
def kernel(name):
    return ok(d.cuModuleGetFunction(ok(d.cuModuleLoadData(b"kernel " + name + b" " + name.split(b"_")[-1])), name))
def launch(function, stream=0, times=1):
    for _ in range(times):
        ok(d.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0))
def say(*what):
    print(json.dumps(what), flush=True)
def heard():
    return json.loads(sys.stdin.readline())
"""


class Client:
    """A process that uses the emulated driver; it says lines of JSON, and hears some."""

    def __init__(self, machine_path, script, *, environment=None, prelude=PRELUDE):
        env = emulator.environment(machine_path) | (environment or {})
        env["PYTHONPATH"] = str(Path(emulator.__file__).parents[2])
        self.process = subprocess.Popen(
            [sys.executable, "-c", prelude + textwrap.dedent(script)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
        )  # fmt: skip

    @property
    def pid(self):
        return self.process.pid

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            pytest.fail(f"the client ended: {self.process.communicate()[1]}")
        said = json.loads(line)
        return said[0] if len(said) == 1 else said

    def tell(self, *what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def finish(self):
        """Wait for a good end; what it said last, if anything."""
        out, errors = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, errors
        assert not errors, "the driver writes nothing on standard error"
        said = [json.loads(line) for line in out.splitlines()]
        return (said[-1][0] if len(said[-1]) == 1 else said[-1]) if said else None


@pytest.fixture
def client():
    """A function that starts a client; those that still run at the end are killed."""
    if importlib.util.find_spec("cuda.bindings") is None:
        pytest.skip("cuda-bindings is not installed: it is the real client of the emulated driver")
    started = []

    def start(machine_path, script, **more):
        started.append(Client(machine_path, script, **more))
        return started[-1]

    yield start
    for each in started:
        with contextlib.suppress(ProcessLookupError):
            each.process.kill()
        each.process.communicate()


class ModelDevice:
    """The C device model alone, in memory of this process: no clock, no locks, no other process."""

    def __init__(self, *, slice_ns=2_000_000, switch_ns=50_000, queue_depth=1024, shared=False):
        table = tables()["emu_device"]
        self.memory = mmap.mmap(-1, table.row_bytes, mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE)
        self._keep = ctypes.c_char.from_buffer(self.memory)
        self.address = ctypes.addressof(self._keep)
        for name, value in {"slice_ns": slice_ns, "switch_ns": switch_ns, "queue_depth": queue_depth}.items():
            self.put(name, value)

    def put(self, name, value):
        self.memory[(at := tables()["emu_device_head"].fields[name].offset_bytes) : at + 8] = value.to_bytes(
            8, "little"
        )

    def call(self, name, *arguments, result=ctypes.c_uint64):
        function = getattr(library(), name)
        function.restype = result
        return function(ctypes.c_void_p(self.address), *[ctypes.c_uint64(a) for a in arguments])

    def rows(self, name, first=0, count=None):
        table = tables()[name]
        at = self.address + table.offset_bytes + first * table.row_bytes
        return ctypes.string_at(at, (table.rows if count is None else count) * table.row_bytes)

    def counter(self, name):
        return tables()["emu_device_head"].word(self.rows("emu_device_head"), name)

    def stream(self, context, stream, name):
        table = tables()["emu_stream"]
        queues = (tables()["emu_device"].row_bytes - table.offset_bytes) // tables()["emu_context"].rows
        at = self.address + table.offset_bytes + context * queues + stream * table.row_bytes
        return table.word(ctypes.string_at(at, table.row_bytes), name)

    def fill_notes(self):
        """Make every note of the undo list one that changes nothing: the first word of the device is its slice."""
        note = (0).to_bytes(8, "little") + self.counter("slice_ns").to_bytes(8, "little")
        table = tables()["emu_undo"]
        self.memory[table.offset_bytes : table.offset_bytes + table.rows * table.row_bytes] = note * table.rows

    def everything(self):
        """All of the state of the first two contexts' device but the notes themselves."""
        self.put("undo_count", 0)
        after = tables()["emu_context"].offset_bytes
        used = tables()["emu_stream"].offset_bytes + (1 << 21)
        return self.rows("emu_device_head") + ctypes.string_at(self.address + after, used - after)

    def snapshot(self):
        nobody = bytes(tables()["emu_process"].rows * tables()["emu_process"].row_bytes)
        return read_device(0, self.rows("emu_device_head"), self.rows("emu_context"), nobody)

    def record(self):
        history = read_history(self.rows("emu_span", 0, self.counter("history_count")))
        return DeviceRecord(
            self.snapshot(), history, read_inputs(self.rows("emu_input", 0, self.counter("input_count")))
        )


@pytest.fixture(scope="session")
def model_device():
    """The class of the device model alone."""
    return ModelDevice


@dataclass
class _Piece:
    kind: str
    seq: int
    unit_ns: int = 0
    units: int = 0
    on: tuple = ()


@dataclass
class _Stream:
    priority: int = 0
    queue: list = field(default_factory=list)
    done: int = 0
    progress_ns: int = 0


@dataclass
class _Context:
    slot: int
    alive: bool = True
    streams: dict = field(default_factory=dict)
    current: int | None = None
    last_stream: int = 511
    busy_ns: int = 0
    wait_ns: int = 0
    wait_in_switch_ns: int = 0
    slices: int = 0
    preemptions: int = 0
    units_done: int = 0
    wait_on_ns: dict = field(default_factory=dict)


class Replay:
    """The scheduling rules of docs/emulated-gpu.md, written down a second time: slow, plain, and from the document.

    Give it the recorded inputs; it says what each context must have got.
    """

    def __init__(self, *, slice_ns, switch_ns, started_ns=0):
        self.slice_ns, self.switch_ns, self.clock = slice_ns, switch_ns, started_ns
        self.contexts = {}
        self.doing = ("idle",)  # ("running", id, slice end) or ("switching", from, to, end)
        self.resident = None  # a context's id, "gone", or None on a fresh device
        self.totals = {"idle": 0, "running": 0, "switching": 0}
        self.switches = 0
        self.spans = []

    def replay(self, inputs, until_ns):
        for item in inputs:
            self.run_until(item.at_ns)
            self.take(item)
            self.settle()
            self.find_work()
        self.run_until(until_ns)
        return self

    # -- what is asked

    def take(self, item):
        what, context = item.what, self.contexts.get(item.context)
        if what == "context-open":
            self.contexts[item.context] = _Context(item.a)
        elif what == "context-close":
            self.close(item.context)
        elif what == "stream-open":
            priority = item.a - (1 << 64) if item.a >> 63 else item.a
            old = context.streams.get(item.stream)
            context.streams[item.stream] = old or _Stream()
            context.streams[item.stream].priority = priority
        elif what == "work":
            context.streams[item.stream].queue.append(_Piece("work", item.seq, item.a, item.b))
        elif what == "wait":
            context.streams[item.stream].queue.append(_Piece("wait", item.seq, on=(item.a, item.b, item.c)))
        elif what in {"mark", "host"}:
            context.streams[item.stream].queue.append(_Piece(what, item.seq))
        elif what == "host-done":
            stream = context.streams[item.stream]
            stream.done = stream.queue.pop(0).seq

    def close(self, name):
        self.contexts[name].alive = False
        if self.resident == name:
            self.resident = "gone"
            if self.doing[0] == "running":
                self.doing = ("idle",)
        if self.doing[0] == "switching" and self.doing[1] == name:
            self.doing = ("switching", "gone", *self.doing[2:])

    def settle(self):
        again = True
        while again:
            again = False
            for context in self.contexts.values():
                for stream in context.streams.values() if context.alive else ():
                    while stream.queue and self.passes(stream.queue[0]):
                        stream.done = stream.queue.pop(0).seq
                        again = True

    def passes(self, piece):
        if piece.kind == "wait":
            name, stream, seq = piece.on
            return not self.contexts[name].alive or self.contexts[name].streams[stream].done >= seq
        return piece.kind == "mark"

    # -- who runs

    def can_run(self, name):
        context = self.contexts[name]
        return context.alive and any(s.queue and s.queue[0].kind == "work" for s in context.streams.values())

    def next_after(self, slot):
        able = sorted((self.contexts[name].slot, name) for name in self.contexts if self.can_run(name))
        later = [name for place, name in able if place > slot]
        return later[0] if later else able[0][1] if able else None

    def give_to(self, name):
        if name is None:
            self.doing = ("idle",)
        elif self.resident in {name, None} or not self.switch_ns:
            self.start(name)
        else:
            self.doing = ("switching", self.resident, name, self.clock + self.switch_ns)
            self.switches += 1

    def start(self, name):
        self.resident = name
        self.doing = ("running", name, self.clock + self.slice_ns)
        self.contexts[name].slices += 1
        self.choose_stream(self.contexts[name])

    def choose_stream(self, context):
        if context.current is not None:
            return
        able = {slot: s.priority for slot, s in context.streams.items() if s.queue and s.queue[0].kind == "work"}
        best = min(able.values())
        turn = sorted(able, key=lambda slot: (slot - context.last_stream - 1) % 512)
        context.current = next(slot for slot in turn if able[slot] == best)

    def find_work(self):
        if self.doing[0] == "idle":
            known = self.contexts.get(self.resident)
            self.give_to(self.next_after(known.slot if known else -1))
        elif self.doing[0] == "running":
            name = self.doing[1]
            if not self.can_run(name):
                self.give_to(self.next_after(self.contexts[name].slot))
            else:
                self.choose_stream(self.contexts[name])

    # -- how time passes

    def run_until(self, until_ns):
        while True:
            if self.doing[0] == "idle":
                return self.spend(until_ns - self.clock)
            if self.doing[0] == "switching":
                at = self.doing[3]
            else:
                stream = self.running_stream()
                ends = self.clock + stream.queue[0].unit_ns - stream.progress_ns
                at = min(ends, self.doing[2])
            if at > until_ns:
                return self.spend(until_ns - self.clock)
            self.spend(at - self.clock)
            if self.doing[0] == "switching":
                self.switched()
            elif at == ends:
                self.kernel_done()
            else:
                self.slice_over()

    def running_stream(self):
        context = self.contexts[self.doing[1]]
        return context.streams[context.current]

    def spend(self, span):
        if span <= 0:
            return
        holder = {"idle": None, "running": self.doing[1:2], "switching": self.doing[2:3]}[self.doing[0]]
        self.totals[self.doing[0]] += span
        if holder:
            last = self.spans[-1] if self.spans else None
            if last and last[1:] == (self.clock, self.doing[0], holder[0]):
                self.spans[-1] = (last[0], self.clock + span, *last[2:])
            else:
                self.spans.append((self.clock, self.clock + span, self.doing[0], holder[0]))
        if self.doing[0] == "running":
            self.contexts[holder[0]].busy_ns += span
            self.running_stream().progress_ns += span
        for name, context in self.contexts.items():
            if not self.can_run(name) or (self.doing[0] == "running" and name == holder[0]):
                continue
            culprit = holder[0]
            context.wait_ns += span
            if self.doing[0] == "switching":
                context.wait_in_switch_ns += span
                if name == culprit:
                    culprit = self.doing[1]
            context.wait_on_ns[culprit] = context.wait_on_ns.get(culprit, 0) + span
        self.clock += span

    def kernel_done(self):
        context, stream = self.contexts[self.doing[1]], self.running_stream()
        stream.progress_ns = 0
        context.units_done += 1
        context.last_stream, context.current = context.current, None
        stream.queue[0].units -= 1
        if not stream.queue[0].units:
            stream.done = stream.queue.pop(0).seq
        self.settle()
        self.find_work()

    def slice_over(self):
        name = self.doing[1]
        if self.next_after(self.contexts[name].slot) == name:
            self.doing = ("running", name, self.doing[2] + self.slice_ns)
            return
        if self.running_stream().progress_ns:
            self.contexts[name].preemptions += 1
        self.give_to(self.next_after(self.contexts[name].slot))

    def switched(self):
        name = self.doing[2]
        if self.can_run(name):
            self.start(name)
            return
        self.resident = name if self.contexts[name].alive else "gone"
        self.give_to(self.next_after(self.contexts[name].slot))


@pytest.fixture(scope="session")
def agrees_with_replay():
    """A function that computes a second time, from the recorded inputs, what a device must have done, and compares it all."""

    def check(record):
        device, spans, inputs = record.device, record.history, record.inputs
        replay = Replay(slice_ns=device.slice_ns, switch_ns=device.switch_ns, started_ns=device.started_ns)
        replay.replay(inputs, device.clock_ns)
        wall = device.clock_ns - device.started_ns
        assert device.busy_ns + device.switching_ns + device.idle_ns == wall
        totals = {"idle": device.idle_ns, "running": device.busy_ns, "switching": device.switching_ns}
        assert totals == replay.totals
        assert device.switches == replay.switches
        assert [(s.start_ns, s.end_ns, s.activity, s.context) for s in spans] == replay.spans
        gone = set(replay.contexts) - {c.id for c in device.contexts} | {"gone"}
        for context in device.contexts:
            expected = replay.contexts[context.id]
            waited = {}
            for culprit, ns in expected.wait_on_ns.items():
                key = 0 if culprit in gone else culprit
                waited[key] = waited.get(key, 0) + ns
            assert sum(context.wait_on_ns.values()) == context.wait_ns
            assert (
                context.busy_ns, context.wait_ns, context.wait_in_switch_ns, context.slices, context.preemptions,
                context.units_done, context.wait_on_ns,
            ) == (
                expected.busy_ns, expected.wait_ns, expected.wait_in_switch_ns, expected.slices, expected.preemptions,
                expected.units_done, waited,
            )  # fmt: skip

    return check
