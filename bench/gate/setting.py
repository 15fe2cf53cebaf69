"""What the gate's benches stand on: the gate and their programs, built, and an agent that only hands out pages."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from pillion_node import pages
from pillion_node.pages import GateTier, Kind, State

HERE = Path(__file__).resolve().parent
_SPEC = importlib.util.spec_from_file_location(
    "pillion_gate_compile", HERE.parents[1] / "nodeagent" / "gate" / "compile.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
compiling = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(compiling)


def _compiler() -> tuple[str, ...]:
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "cc", "-fno-sanitize=all")
    return (shutil.which("cc") or "cc",)


def build_gate(folder: Path) -> Path:
    """Return the gate, built from the sources as they are now."""
    library = folder / "libpillion-gate.so"
    if not library.exists():
        zig = importlib.util.find_spec("ziglang") is not None
        compiling.compile_gate(library, compiler=None if zig else _compiler())
    return library


def compile_program(source: str, output: Path, *flags: str) -> Path:
    """Return a program of this folder, built."""
    if not output.exists():
        output.parent.mkdir(parents=True, exist_ok=True)
        include = compiling.header("nvidia-cuda-runtime", "cuda.h").parent
        how = ("-std=c11", "-D_GNU_SOURCE", "-O2", f"-isystem{include}")
        command = [*_compiler(), *how, str(HERE / source), *flags, "-o", str(output), "-ldl", "-lpthread"]
        subprocess.run(command, check=True)
    return output


class Member:
    """A process that joined: its pages."""

    def __init__(self, layout: pages.Layout, connection: socket.socket) -> None:
        self.layout, self.connection = layout, connection
        self.lease, self.client = pages.create_page(layout, "lease"), pages.create_page(layout, "client")
        self.activity = pages.create_page(layout, "activity")
        self.mapped = threading.Event()

    def watch(self, high: Member, slot: int) -> None:
        """Let it see when `high` is busy."""
        pages.send(self.connection, self.layout.pack(Kind.ACTIVITY, slot=slot, present=1), [high.activity.fd])


class SmallAgent:
    """Lets everybody in, on the terms that `terms` gives for the n-th process, and does nothing else."""

    def __init__(self, gate: Path, path: Path, terms: Callable[[int], dict[str, int]]) -> None:
        self.layout, self.path, self.terms = pages.Layout(gate), path, terms
        self.members: list[Member] = []
        self._joined = threading.Condition()
        self._ledger = pages.create_page(self.layout, "ledger")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(str(path))
        self._socket.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        pages.receive(connection)
        with self._joined:
            member, slot = Member(self.layout, connection), len(self.members)
            self.members.append(member)
        terms = {"tier": GateTier.LOW, "state": State.RUN, "epoch": 1, "max_slowdown_ppm": 10_000}
        terms |= {"budget_ppm": 1_000_000, "max_stall_ns": 10_000_000, "bucket_ns": 300_000_000}
        terms |= {"switch_ns": 50_000, "slice_ns": 2_000_000} | self.terms(slot)
        is_open = terms.pop("open", 0)
        member.lease.update(**terms)
        member.lease["open"] = is_open
        self._ledger["slots"] = slot + 1
        handed = [member.lease.fd, member.client.fd, self._ledger.fd]
        if terms["tier"] == GateTier.HIGH:
            handed.append(member.activity.fd)
        pages.send(connection, self.layout.pack(Kind.WELCOME, tier=terms["tier"], slot=slot), handed)
        with contextlib.suppress(OSError):
            while (data := pages.receive(connection)[0]) and self.layout.unpack(data)["kind"] == Kind.MAPPED:
                member.mapped.set()
                with self._joined:
                    self._joined.notify_all()

    def member(self, number: int) -> Member:
        """Return the process that joined as the `number`th, when it has."""
        with self._joined:
            self._joined.wait_for(lambda: len(self.members) > number, timeout=20)
        self.members[number].mapped.wait(20)
        return self.members[number]
