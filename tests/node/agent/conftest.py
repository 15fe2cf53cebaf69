"""The agent on an emulated GPU, gates that speak the protocol from Python, and commands under `pillion exec`."""

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pytest

NODEAGENT = Path(__file__).resolve().parents[3] / "nodeagent"
PLUGIN = NODEAGENT.parent / "plugin"

emulator = pytest.importorskip("pillion_node.emulator", reason="pillion-node is not installed here")
from pillion_node import pages  # noqa: E402
from pillion_node.agent import Agent, Config, EmulatedDevices, Log  # noqa: E402
from pillion_node.local import Client  # noqa: E402
from pillion_node.pages import Kind  # noqa: E402

if not (emulator.library_directory() / "libcuda.so.1").is_file():
    pytest.skip("the emulated GPU is not built here (Linux only: install pillion-node)", allow_module_level=True)

PATIENCE_S = 20
HIGH = {"pillion.dev/priority": "high", "pillion.dev/share": "0.4"}
NORMAL = {"pillion.dev/priority": "normal", "pillion.dev/share": "0.3"}
LOW = {"pillion.dev/priority": "low", "pillion.dev/memory": "64Mi"}
POLICIES = {"high": HIGH, "normal": NORMAL, "low": LOW}


def until(condition, what="it"):
    """Wait until `condition` holds: it is another process's doing, so there is nothing to be woken by."""
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come about in {PATIENCE_S} s")
        select.select([], [], [], 0.001)
    return answer


@pytest.fixture(scope="session")
def eventually():
    """Wait until a condition holds."""
    return until


@pytest.fixture(scope="session")
def gate_library(tmp_path_factory):
    """The gate, built from the sources as they are now, or the build that PILLION_GATE_LIBRARY names."""
    if os.environ.get("PILLION_GATE_LIBRARY"):
        return Path(os.environ["PILLION_GATE_LIBRARY"])
    installed = {distribution.name for distribution in importlib.metadata.distributions()}
    missing = {"nvidia-cuda-runtime", "nvidia-nvml-dev"} - installed
    if missing:
        pytest.skip(f"{', '.join(sorted(missing))} is not installed here: it has headers that the gate is built from")
    spec = importlib.util.spec_from_file_location("pillion_gate_compile_for_agent", NODEAGENT / "gate" / "compile.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    compiler = None if importlib.util.find_spec("ziglang") else (shutil.which("cc"),)
    if compiler == (None,):
        pytest.skip("neither ziglang nor cc is here: nothing to build the gate with")
    return module.compile_gate(tmp_path_factory.mktemp("gate") / "libpillion-gate.so", compiler=compiler)


@pytest.fixture(scope="session")
def layout(gate_library):
    """The protocol's layout."""
    return pages.Layout(gate_library)


@pytest.fixture
def machine():
    """An emulated machine with one GPU of 1 GiB."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        yield emulator.create(Path(folder) / "gpu", emulator.MachineOptions(memory_bytes=1 << 30))


@pytest.fixture
def directory():
    """An agent's directory; its path is short enough for sockets."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o700)
        yield Path(folder)


class Running:
    """An agent in a thread of this process."""

    def __init__(self, directory, gate_library, machine, **settings):
        self.directory = directory
        self.log, writing = os.pipe()
        self._writing = writing
        os.set_blocking(writing, False)
        config = Config(directory, gate_library, **settings)
        self.agent = Agent(config, EmulatedDevices(machine), Log(writing))
        self._thread = threading.Thread(target=self.agent.run)
        self._thread.start()
        self._control = None

    def ask(self, **request):
        if self._control is None:
            self._control = Client(self.directory)
        return self._control.ask(**request)

    def status(self):
        return self.ask(op="status")["status"]

    def tenants(self):
        return {tenant["id"]: tenant for gpu in self.status()["gpus"] for tenant in gpu["tenants"]}

    def stop(self):
        if self._control is not None:
            self._control.close()
            self._control = None
        self.agent.stop()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        with contextlib.suppress(OSError):
            os.close(self.log)
            os.close(self._writing)


@pytest.fixture
def agent_in(gate_library, machine):
    """A function that starts an agent in a directory."""
    started = []

    def start(directory, **settings):
        started.append(Running(directory, gate_library, machine, **settings))
        return started[-1]

    yield start
    for each in started:
        if each._thread.is_alive():
            each.stop()


@pytest.fixture
def agent(agent_in, directory):
    """An agent."""
    return agent_in(directory)


GATE = """
import json, os, socket, sys
from pathlib import Path
from pillion_node import pages
from pillion_node.local import Client
from pillion_node.pages import Kind
layout = pages.Layout(Path(sys.argv[1]))
directory, policy = Path(sys.argv[2]), json.loads(sys.argv[3])
def say(*what):
    print(json.dumps(what), flush=True)
if policy:
    say(Client(directory).ask(op="register", policy=policy, gpu=0, name="gate")["tenant"])
held, kept = None, []
def connect():
    global held
    held = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    held.settimeout(15)
    held.connect(str(directory / "gate.sock"))
def hello(brings=(), **values):
    pages.send(held, layout.pack(Kind.HELLO, **values), brings)
def receive():
    while True:
        data, fds = pages.receive(held)
        message = layout.unpack(data) if data else None
        if message is None or message["kind"] != Kind.NEWS:
            kept.append(fds)
            return message, fds
lease = client = ledger = activity = None
def welcome():
    global lease, client, ledger, activity
    message, fds = receive()
    if message is None or message["kind"] != Kind.WELCOME:
        return message
    lease = pages.Page(layout, "lease", fds[0], writable=False)
    client, ledger = pages.Page(layout, "client", fds[1]), pages.Page(layout, "ledger", fds[2])
    if len(fds) > 3:
        activity = pages.Page(layout, "activity", fds[3])
    return message
def mapped():
    pages.send(held, layout.pack(Kind.MAPPED))
def knock():
    connect()
    try:
        hello()
    except BrokenPipeError:
        pass  # hung up on already
def join():
    connect(); hello(); found = welcome(); mapped(); return found
for line in sys.stdin:
    try:
        say("ok", eval(line))
    except Exception as error:
        say(type(error).__name__, str(error))
"""


class Gate:
    """A process that speaks the gate's side of the protocol, one expression at a time."""

    def __init__(self, library, directory, policy):
        environment = os.environ | {"PYTHONPATH": f"{NODEAGENT}:{PLUGIN}"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", GATE, str(library), str(directory), json.dumps(policy)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True,
        )  # fmt: skip
        self.tenant = self._hear()[0] if policy else None

    @property
    def pid(self):
        return self.process.pid

    def _hear(self):
        line = self.process.stdout.readline()
        if not line:
            pytest.fail("the gate ended")
        return json.loads(line)

    def do(self, expression):
        """Evaluate an expression over there; its value."""
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        what, value = self._hear()
        assert what == "ok", (expression, what, value)
        return value

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def gate_in(gate_library):
    """A function that starts a gate in an agent's directory, of a tier or of nobody."""
    started = []

    def start(directory, tier=None, **more):
        started.append(Gate(gate_library, directory, (POLICIES[tier] | more) if tier else None))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.fixture
def gate(gate_in, agent):
    """A function that starts a gate beside the one agent."""
    return lambda tier=None, **more: gate_in(agent.directory, tier, **more)


@pytest.fixture
def descriptors():
    """A function that counts this process's descriptors, the agent's among them."""
    return lambda: len(list(Path("/proc/self/fd").iterdir()))


PRELUDE = """
import ctypes, json, os, signal, sys, threading, time
from cuda.bindings import driver as d
def ok(result):
    assert result[0] == d.CUresult.CUDA_SUCCESS, result[0]
    return None if len(result) == 1 else result[1] if len(result) == 2 else result[1:]
def context():
    ok(d.cuInit(0))
    ok(d.cuCtxSetCurrent(ok(d.cuDevicePrimaryCtxRetain(ok(d.cuDeviceGet(0))))))
def kernel(name):
    return ok(d.cuModuleGetFunction(ok(d.cuModuleLoadData(b"kernel " + name + b" " + name.split(b"_")[-1])), name))
def launch(function, times=1):
    for _ in range(times):
        ok(d.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0))
def say(*what):
    print(json.dumps(what), flush=True)
def heard():
    return sys.stdin.readline()
def steps(function, until_told):
    told = threading.Event()
    threading.Thread(target=lambda: (heard(), told.set()), daemon=True).start()
    count = 0
    while not told.is_set():
        launch(function, 4)
        ok(d.cuCtxSynchronize())
        count += 1
        if count == 1: say("first")
    say(count)
"""


class Command:
    """A command under `pillion exec`."""

    def __init__(self, arguments, command, environment):
        line = [sys.executable, "-c", "from pillion.cli import main; main()", "exec", *arguments, "--", *command]
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=environment, start_new_session=True)  # fmt: skip

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            pytest.fail(f"the command ended: {self.process.communicate()[1]}")
        said = json.loads(line)
        return said[0] if len(said) == 1 else said

    def tell(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def finish(self):
        out, errors = self.process.communicate(timeout=60)
        return self.process.returncode, out, errors


@pytest.fixture
def environment(directory, machine, gate_library):
    """What a user of the emulated GPU has in the environment."""
    return os.environ | {
        "PYTHONPATH": f"{NODEAGENT}:{PLUGIN}",
        "PILLION_AGENT": str(directory),
        "PILLION_EMULATED_GPU": str(machine),
        "PILLION_GATE_LIBRARY": str(gate_library),
    }


def end_agent(directory):
    """End the agent that `pillion exec` left running there."""
    with contextlib.suppress(OSError, ValueError):
        holder = int((directory / "agent.lock").read_text())
        pidfd = os.pidfd_open(holder)
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        select.select([pidfd], [], [], PATIENCE_S)
        os.close(pidfd)


@pytest.fixture
def execute(environment, directory):
    """A function that runs a command, or a script that uses the GPU, under `pillion exec`."""
    started = []

    def start(*arguments, command=None, script=None):
        if script is not None:
            if importlib.util.find_spec("cuda.bindings") is None:
                pytest.skip("cuda-bindings is not installed here: it is the real client of these tests")
            command = [sys.executable, "-c", PRELUDE + textwrap.dedent(script)]
        started.append(Command(arguments, command, environment))
        return started[-1]

    yield start
    for each in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(each.process.pid, signal.SIGKILL)
        each.process.communicate()
    end_agent(directory)


@pytest.fixture
def stranger(directory):
    """A function that connects to the gate socket from this process."""
    opened = []

    def connect():
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(PATIENCE_S)
        connection.connect(str(directory / "gate.sock"))
        opened.append(connection)
        return connection

    yield connect
    for each in opened:
        each.close()


@pytest.fixture(scope="session")
def kinds():
    """The protocol's messages."""
    return Kind
