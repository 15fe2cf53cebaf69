"""The gate built for this machine, a real agent's side of its socket, and programs that use the emulated GPU through it."""

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
NODEAGENT = HERE.parents[2] / "nodeagent"

emulator = pytest.importorskip("pillion_node.emulator", reason="pillion-node is not installed here")
from pillion_node import gate as gate_module  # noqa: E402
from pillion_node import pages  # noqa: E402
from pillion_node.pages import GateTier, Kind, State  # noqa: E402

if not (emulator.library_directory() / "libcuda.so.1").is_file():
    pytest.skip("the emulated GPU is not built here (Linux only: install pillion-node)", allow_module_level=True)

SANITIZE = os.environ.get("PILLION_SANITIZE_GATE", "")
"""`thread`, `address` or `undefined`: build the gate with that sanitizer and run the same tests."""

PATIENCE_S = 20


def until(condition, what="it"):
    """Wait until `condition` holds: it is another process's doing, so there is nothing to be woken by."""
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come about in {PATIENCE_S} s")
        time.sleep(0.0005)
    return answer


@pytest.fixture(scope="session")
def eventually():
    """Wait until a condition holds."""
    return until


def _is_installed(distribution):
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return bool(importlib.metadata.distribution(distribution))
    return False


@pytest.fixture(scope="session")
def compiling():
    """The module that compiles the gate."""
    absent = [name for name in ("nvidia-cuda-runtime", "nvidia-nvml-dev") if not _is_installed(name)]
    if absent:
        pytest.skip(f"{absent[0]} is not installed here: it has the headers that the gate is built from")
    spec = importlib.util.spec_from_file_location("pillion_gate_compile", NODEAGENT / "gate" / "compile.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def own_compiler():
    """A C compiler for this machine."""
    if importlib.util.find_spec("ziglang") is not None and not SANITIZE:
        return (sys.executable, "-m", "ziglang", "cc", "-fno-sanitize=all")
    found = shutil.which("cc")
    if found is None:
        pytest.skip("neither ziglang nor cc is here: nothing to build the gate with")
    return (found,)


@pytest.fixture(scope="session")
def gate_library(compiling, tmp_path_factory):
    """The gate, built from the sources as they are now."""
    output = tmp_path_factory.mktemp("gate") / "libpillion-gate.so"
    if SANITIZE:
        return compiling.compile_gate(output, compiler=own_compiler(), flags=(f"-fsanitize={SANITIZE}", "-g", "-O1"))
    return compiling.compile_gate(output, compiler=None if "ziglang" in own_compiler() else own_compiler())


@pytest.fixture(scope="session")
def layout(gate_library, tmp_path_factory, compiling):
    """The protocol's layout as the library says."""
    if SANITIZE:  # a sanitized library cannot be loaded into this process
        plain = tmp_path_factory.mktemp("plain") / "libpillion-gate.so"
        return pages.Layout(compiling.compile_gate(plain, compiler=own_compiler()))
    return pages.Layout(gate_library)


@pytest.fixture
def no_sanitizer():
    """For tests of what sanitizers' runtimes refuse to have around."""
    if SANITIZE:
        pytest.skip(f"the {SANITIZE} sanitizer does not allow it")


@pytest.fixture
def machine_at():
    """A function that makes an emulated machine from options; all are removed afterwards."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        made = []

        def make(**options):
            made.append(emulator.create(Path(folder) / f"gpu-{len(made)}", emulator.MachineOptions(**options)))
            return made[-1]

        yield make


@pytest.fixture
def machine(machine_at):
    """A machine with one GPU of 1 GiB."""
    return machine_at(memory_bytes=1 << 30)


class Member:
    """One process that joined, as the agent sees it."""

    def __init__(self, agent, connection, hello, tier):
        self.agent, self.connection, self.hello = agent, connection, hello
        self.pid = int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)
        self.lease = pages.create_page(agent.layout, "lease")
        self.client = pages.create_page(agent.layout, "client")
        self.tier = tier
        self.activity = None
        self.mapped = threading.Event()
        self.gone = threading.Event()

    def grant(self, state, **terms):
        self.lease.update(state=state, epoch=self.lease["epoch"] + (self.lease["state"] != state), **terms)

    def open(self):
        self.lease.update(openings=self.lease["openings"] + 1)
        self.lease["open"] = 1

    def shut(self, state=State.RUN, **terms):
        self.lease["open"] = 0
        self.grant(state, **terms)

    def beat(self):
        self.lease["heartbeat_ns"] = time.monotonic_ns()

    def watch(self, other, slot, present=True):
        pages.send(self.connection, self.agent.layout.pack(Kind.ACTIVITY, slot=slot, present=int(present)),
                   [other.activity.fd] if present else [])  # fmt: skip


class Agent:
    """The agent's side of the socket. It lets everybody in, on terms that a test sets, and decides nothing by itself."""

    def __init__(self, layout, path, *, tier=GateTier.LOW, open_=False, state=State.RUN, **terms):
        self.layout, self.path, self.tier, self.open, self.state, self.terms = layout, path, tier, open_, state, terms
        self.tier_of = {}
        self.answer = None
        self.before_welcome = None
        self.members = []
        self.ledger = pages.create_page(layout, "ledger")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(str(path))
        self.socket.listen(64)
        self._ended = False
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while not self._ended:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        member = None
        with contextlib.suppress(OSError):
            data, brought = pages.receive(connection)
            if not data:
                return
            hello = self.layout.unpack(data)
            if self.answer is not None:
                self.answer(connection, hello)
                return
            member = self._welcome(connection, hello, brought)
            while True:
                data, _ = pages.receive(connection)
                if not data:
                    break
                if self.layout.unpack(data)["kind"] == Kind.MAPPED:
                    if member.activity is not None and not brought:
                        member.activity.seal()
                    member.mapped.set()
        if member is not None:
            member.gone.set()

    def _welcome(self, connection, hello, brought):
        tier = self.tier
        member = Member(self, connection, hello, tier)
        slot = len(self.members)
        self.ledger["slots"] = max(self.ledger["slots"], slot + 1)
        member.slot = slot
        terms = {"tier": tier, "state": self.state, "epoch": 1, "max_slowdown_ppm": 10_000, "budget_ppm": 1_000_000,
                 "max_stall_ns": 10_000_000, "bucket_ns": 300_000_000, "switch_ns": 50_000, "slice_ns": 2_000_000} | self.terms  # fmt: skip
        member.lease.update(**terms)
        if self.open:
            member.lease["open"] = 1
            member.lease["openings"] = 1
        handed = [member.lease.fd, member.client.fd, self.ledger.fd]
        if tier == GateTier.HIGH:
            if brought:
                member.activity = pages.adopt_activity(self.layout, brought[0])
            else:
                member.activity = pages.create_page(self.layout, "activity")
                handed.append(member.activity.fd)
        if self.before_welcome is not None:
            self.before_welcome(member)
        pages.send(connection, self.layout.pack(Kind.WELCOME, tier=tier, slot=slot), handed)
        member.lease.seal()
        self.members.append(member)
        return member

    def member(self, number=0):
        """The process that joined as the `number`th, when its pages are mapped."""
        until(lambda: len(self.members) > number, "a process that joins")
        assert self.members[number].mapped.wait(PATIENCE_S)
        return self.members[number]

    def die(self):
        """Go as a killed process goes: all at once."""
        self._ended = True
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        Path(self.path).unlink()
        for member in self.members:
            with contextlib.suppress(OSError):
                member.connection.shutdown(socket.SHUT_RDWR)
            member.connection.close()


@pytest.fixture
def agent_at(layout):
    """A function that starts an agent; its socket's path is short enough for a socket."""
    with tempfile.TemporaryDirectory() as folder:
        started = []

        def start(name="s", **terms):
            started.append(Agent(layout, Path(folder) / name, **terms))
            return started[-1]

        yield start
        for each in started:
            if not each._ended:
                each.die()


PRELUDE = """
import ctypes, json, os, signal, sys, threading, time
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


class Program:
    """A process under the gate; it says lines of JSON, and hears some."""

    def __init__(self, arguments, environment):
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=environment)  # fmt: skip

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            pytest.fail(f"the program ended: {self.process.communicate()[1]}")
        said = json.loads(line)
        return said[0] if len(said) == 1 else said

    def tell(self, *what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def finish(self):
        """Wait for a good end; all that it said."""
        out, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, errors
        assert not errors, "neither gate nor driver write anything on standard error"
        said = [json.loads(line) for line in out.splitlines()]
        return [line[0] if len(line) == 1 else line for line in said]


def preload(gate_library):
    """What LD_PRELOAD has to name: a sanitizer's runtime comes first."""
    if not SANITIZE:
        return str(gate_library)
    name = {"thread": "libtsan.so", "address": "libasan.so", "undefined": "libubsan.so"}[SANITIZE]
    runtime = subprocess.run(
        ["cc", f"-print-file-name={name}"], check=True, capture_output=True, text=True
    ).stdout.strip()
    return f"{Path(runtime).resolve()}:{gate_library}"


@pytest.fixture
def run(gate_library, machine):
    """A function that starts a program under the gate: a Python script for cuda-bindings, or a built program with arguments."""
    started = []

    def start(what, *arguments, agent=None, on=None, extra=None):
        environment = emulator.environment(on or machine)
        environment = gate_module.environment(agent.path if agent else None, environment, Path(preload(gate_library)))
        environment["PYTHONPATH"] = str(Path(pages.__file__).parents[1])
        environment["ASAN_OPTIONS"] = "detect_leaks=0:verify_asan_link_order=0"
        environment |= extra or {}
        if isinstance(what, Path):
            command = [str(what), *map(str, arguments)]
        else:
            if importlib.util.find_spec("cuda.bindings") is None:
                pytest.skip("cuda-bindings is not installed here: it is the real client of these tests")
            command = [sys.executable, "-c", PRELUDE + textwrap.dedent(what), *map(str, arguments)]
        started.append(Program(command, environment))
        return started[-1]

    yield start
    for each in started:
        with contextlib.suppress(ProcessLookupError):
            each.process.kill()
        each.process.communicate()


@pytest.fixture(scope="session")
def built(compiling, tmp_path_factory):
    """A function that builds one of the C programs beside this file."""
    folder = tmp_path_factory.mktemp("programs")
    done = {}

    def build(name, *flags, shared=False):
        key = (name, flags)
        if key not in done:
            output = folder / f"{Path(name).stem}-{len(done)}"
            include = compiling.header("nvidia-cuda-runtime", "cuda.h").parent
            link = ["-shared", "-fPIC"] if shared else []
            subprocess.run([*own_compiler(), "-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", f"-isystem{include}",
                            str(HERE / "programs" / name), *link, "-o", str(output), *flags, "-ldl", "-lpthread"], check=True)  # fmt: skip
            done[key] = output
        return done[key]

    return build


@pytest.fixture(scope="session")
def driver_library():
    """The emulated driver, for programs that are linked against it."""
    return emulator.library_directory() / "libcuda.so.1"


@pytest.fixture
def on_gpu(machine):
    """A function that tells how many submissions of a process the GPU has seen."""

    def count(pid, where=None):
        with emulator.Machine.open(where or machine) as opened:
            contexts = [context for context in opened.snapshot().contexts if context.pid == pid]
        return sum(context.launches + context.graph_launches + context.copies for context in contexts)

    return count
