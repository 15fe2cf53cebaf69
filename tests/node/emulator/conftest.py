"""Emulated machines for the tests, clients that use them, and the device model alone."""

import contextlib
import ctypes
import importlib.util
import json
import mmap
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

emulator = pytest.importorskip("pillion_node.emulator", reason="pillion-node is not installed here")
from pillion_node.emulator.layout import library, library_directory, tables  # noqa: E402
from pillion_node.emulator.snapshot import DeviceRecord, read_device, read_history, read_inputs  # noqa: E402

if not (library_directory() / "libcuda.so.1").is_file():
    pytest.skip("the emulated GPU is not built here (Linux only: install pillion-node)", allow_module_level=True)


def _load_replay():
    """The class in replay.py: a helper beside the tests, which pytest does not put on the path."""
    spec = importlib.util.spec_from_file_location("emulator_replay", Path(__file__).with_name("replay.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.Replay


Replay = _load_replay()


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
