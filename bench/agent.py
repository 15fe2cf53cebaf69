"""What the agent itself costs: 8 emulated GPUs, 32 clients of all tiers, 4 on each GPU.

Three states: nobody submits; one of the two normal steps on each GPU always has work; both have, and take turns.
Processor time of the agent as part of one core, over 10 s each, and its resident memory.
Goal: under 3 % of a core, under 80 MiB.
The clients speak the gate's protocol and use no processor time of the agent's. Needs a built gate.
Run: python bench/agent.py [--gate LIBRARY]
"""

import argparse
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pillion_node import emulator, gate, pages
from pillion_node.local import Client
from pillion_node.pages import Kind

GPUS, SECONDS = 8, 10
PREFIX = "pillion.dev/"
POLICIES = (
    {PREFIX + "priority": "high", PREFIX + "share": "0.3"},
    {PREFIX + "priority": "normal", PREFIX + "share": "0.4"},
    {PREFIX + "priority": "normal", PREFIX + "share": "0.2"},
    {PREFIX + "priority": "low", PREFIX + "memory": "1Gi"},
)
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Member:
    """A process that joins the agent and then follows its lease as a gate with work does."""

    def __init__(self, layout: pages.Layout, directory: Path, policy: dict[str, str], gpu: int) -> None:
        told, self._tell = os.pipe()
        ready, done = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._tell)
            self._live(layout, directory, policy, gpu, told, done)
            os._exit(0)
        os.close(told)
        os.close(done)
        os.read(ready, 1)
        os.close(ready)

    @staticmethod
    def _live(layout: pages.Layout, directory: Path, policy: dict[str, str], gpu: int, told: int, done: int) -> None:
        Client(directory).ask(op="register", policy=policy, gpu=gpu, name="bench")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(str(directory / "gate.sock"))
        pages.send(connection, layout.pack(Kind.HELLO))
        _, descriptors = pages.receive(connection)
        client = pages.Page(layout, "client", descriptors[1])
        pages.send(connection, layout.pack(Kind.MAPPED))
        os.write(done, b"\0")
        # Work that never ends is a thread that always waits: the agent takes turns whether or not it runs in between.
        while asked := os.read(told, 1):
            client["waiting"] = asked[0]

    def wait(self, waiting: int) -> None:
        """Let it have work, or none."""
        os.write(self._tell, bytes([waiting]))


def used_s(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def main() -> None:
    """Print one line per state."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gate", type=Path, default=None, help="the gate's library (default: the package's)")
    library = parser.parse_args().gate or gate.library_path()
    with tempfile.TemporaryDirectory() as folder:
        machine = emulator.create(Path(folder) / "gpu", emulator.MachineOptions(gpus=GPUS))
        directory = Path(folder) / "agent"
        environment = os.environ | {"PILLION_EMULATED_GPU": str(machine), "PILLION_GATE_LIBRARY": str(library)}
        reading, writing = os.pipe()
        agent = subprocess.Popen(
            [sys.executable, "-m", "pillion_node.agent", "--directory", str(directory), "--ready-fd", str(writing)],
            env=environment, stderr=subprocess.DEVNULL, pass_fds=(writing,),
        )  # fmt: skip
        os.read(reading, 16)
        layout = pages.Layout(library)
        members = [[Member(layout, directory, policy, gpu) for policy in POLICIES] for gpu in range(GPUS)]
        try:
            for name, busy in (("nobody has work", 0), ("one normal step a GPU has", 1), ("two take turns", 2)):
                for group in members:
                    for number, member in enumerate(group[1:3]):
                        member.wait(int(number < busy))
                select.select([], [], [], 2)  # what went before is no longer recent
                before, began = used_s(agent.pid), time.monotonic()
                select.select([], [], [], SECONDS)
                share = (used_s(agent.pid) - before) / (time.monotonic() - began)
                status = Path(f"/proc/{agent.pid}/status").read_text()
                resident = int(status.split("VmRSS:")[1].split()[0]) / 1024
                print(f"{name:28} {share:6.1%} of a core   {resident:5.1f} MiB")
        finally:
            for member in (member for group in members for member in group):
                os.kill(member.pid, signal.SIGKILL)
                os.waitpid(member.pid, 0)
            agent.terminate()
            agent.wait()


if __name__ == "__main__":
    main()
