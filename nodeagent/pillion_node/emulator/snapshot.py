"""What a device and its contexts did, as plain data read from a copy of the device's bytes."""

from __future__ import annotations

import uuid as uuids
from dataclasses import dataclass

from pillion_node.emulator.layout import tables

_LIVE = 1
_ENDED = 2
_ACTIVITIES = ("idle", "running", "switching")
_CHECKPOINT_STATES = ("running", "locked", "checkpointed", "failed", "checkpointing", "restoring")
_WHATS = (
    "",
    "context-open",
    "context-close",
    "stream-open",
    "stream-close",
    "work",
    "mark",
    "wait",
    "host",
    "host-done",
)


@dataclass(frozen=True)
class ContextSnapshot:
    """One context: what it was given, and the exact time that it had work and did not run.

    Attributes:
        id: Never used twice on a device.
        slot: Its place in the device's tables; used again some time after the context ended.
        pid: Of its process.
        live: False once it ended; its numbers stay readable until the slot is needed.
        created_ns: On the monotonic clock.
        ended_ns: 0 while it lives.
        busy_ns: Device time that its work took.
        wait_ns: Time that it had work that could run while another context held the device or a switch was under way.
        wait_in_switch_ns: The part of `wait_ns` that passed in switches.
        wait_on_ns: The parts of `wait_ns` by the id of the context that caused them; 0 for those that are forgotten.
        pending_ns: Queued work.
        pending_launches: What is queued of it, as the launch-queue depth counts.
        launches: Kernels submitted one by one.
        graph_launches: Graphs submitted.
        copies: Copies and sets submitted.
        host_functions: Host functions submitted.
        units_done: Kernels, copies and sets completed, those in graphs too.
        slices: How often it got the device.
        preemptions: How often a slice ended inside one of its kernels.
        last_submit_ns: When it last submitted anything.
    """

    id: int
    slot: int
    pid: int
    live: bool
    created_ns: int
    ended_ns: int
    busy_ns: int
    wait_ns: int
    wait_in_switch_ns: int
    wait_on_ns: dict[int, int]
    pending_ns: int
    pending_launches: int
    launches: int
    graph_launches: int
    copies: int
    host_functions: int
    units_done: int
    slices: int
    preemptions: int
    last_submit_ns: int


@dataclass(frozen=True)
class ProcessSnapshot:
    """One live process: its memory on this device, and where a checkpoint of it stands."""

    slot: int
    pid: int
    memory_bytes: int
    host_bytes: int
    checkpoint: str


@dataclass(frozen=True)
class Span:
    """The device did one thing from start to end: `running` context `context`, or `switching` towards it."""

    start_ns: int
    end_ns: int
    activity: str
    context: int


@dataclass(frozen=True)
class Input:
    """Something that was asked of the model. `a`, `b`, `c` depend on `what`; see docs/emulated-gpu.md."""

    at_ns: int
    what: str
    context: int
    stream: int
    a: int
    b: int
    c: int
    seq: int


@dataclass(frozen=True)
class DeviceSnapshot:
    """One device at `clock_ns`; `busy_ns + switching_ns + idle_ns == clock_ns - started_ns`, exactly."""

    index: int
    uuid: str
    name: str
    slice_ns: int
    switch_ns: int
    queue_depth: int
    memory_bytes: int
    memory_used_bytes: int
    host_used_bytes: int
    started_ns: int
    clock_ns: int
    activity: str
    resident_context: int
    busy_ns: int
    switching_ns: int
    idle_ns: int
    switches: int
    contexts: tuple[ContextSnapshot, ...]
    processes: tuple[ProcessSnapshot, ...]


@dataclass(frozen=True)
class DeviceRecord:
    """A device, who held it when, and what was asked of it.

    Attributes:
        device: The state at one moment.
        history: The last 16,384 spans until then, oldest first. Idle time is what lies between them.
        inputs: The last 65,536 inputs until then, oldest first. All of them tell what the model must answer.
    """

    device: DeviceSnapshot
    history: tuple[Span, ...]
    inputs: tuple[Input, ...]


def _split(name: str, rows: bytes) -> list[bytes]:
    size = tables()[name].row_bytes
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def _contexts(raw: bytes) -> tuple[ContextSnapshot, ...]:
    table = tables()["emu_context"]
    rows = [(slot, row) for slot, row in enumerate(_split("emu_context", raw)) if table.word(row, "state")]
    ids = {slot: table.word(row, "id") for slot, row in rows}
    found = []
    for slot, row in rows:
        wait_on = {ids[k]: ns for k, ns in enumerate(table.words(row, "wait_on")) if ns}
        gone = table.word(row, "wait_on_gone_ns")
        plain = {
            name: table.word(row, name)
            for name in ContextSnapshot.__dataclass_fields__
            if name not in {"slot", "live", "wait_on_ns"}
        }
        found.append(
            ContextSnapshot(
                slot=slot,
                live=table.word(row, "state") == _LIVE,
                wait_on_ns=wait_on | ({0: gone} if gone else {}),
                **plain,
            )
        )
    return tuple(sorted(found, key=lambda context: context.id))


def _processes(raw: bytes, head: bytes) -> tuple[ProcessSnapshot, ...]:
    heads, table = tables()["emu_device_head"], tables()["emu_process"]
    memory, host = heads.words(head, "process_memory"), heads.words(head, "process_host")
    found = []
    for slot, row in enumerate(_split("emu_process", raw)):
        if table.word(row, "state") != _LIVE:
            continue
        state = _CHECKPOINT_STATES[table.word(row, "checkpoint")]
        found.append(ProcessSnapshot(slot, table.word(row, "pid"), memory[slot], host[slot], state))
    return tuple(found)


def read_device(index: int, head: bytes, contexts: bytes, processes: bytes) -> DeviceSnapshot:
    """Read a device from copies of its head, of its table of contexts, and of the machine's table of processes."""
    table = tables()["emu_device_head"]
    found = _contexts(contexts)
    resident = table.word(head, "resident")
    settings = ("slice_ns", "switch_ns", "queue_depth", "memory_bytes")
    plain = (*settings, "started_ns", "clock_ns", "busy_ns", "switching_ns", "idle_ns", "switches")
    return DeviceSnapshot(
        index=index,
        uuid=f"GPU-{uuids.UUID(bytes=b''.join(word.to_bytes(8, 'little') for word in table.words(head, 'uuid')))}",
        name=table.text(head, "name"),
        memory_used_bytes=table.word(head, "memory_used"),
        host_used_bytes=table.word(head, "host_used"),
        activity=_ACTIVITIES[table.word(head, "activity")],
        resident_context=next((context.id for context in found if context.slot + 1 == resident), 0),
        contexts=found,
        processes=_processes(processes, head),
        **{name: table.word(head, name) for name in plain},
    )


def read_history(rows: bytes) -> tuple[Span, ...]:
    """Read spans from a copy of their rows."""
    word = tables()["emu_span"].word
    return tuple(
        Span(word(row, "start_ns"), word(row, "end_ns"), _ACTIVITIES[word(row, "kind")], word(row, "id"))
        for row in _split("emu_span", rows)
    )


def read_inputs(rows: bytes) -> tuple[Input, ...]:
    """Read inputs from a copy of their rows."""
    word = tables()["emu_input"].word
    names = ("context", "stream", "a", "b", "c", "seq")
    return tuple(
        Input(word(row, "at_ns"), _WHATS[word(row, "what")], *(word(row, name) for name in names))
        for row in _split("emu_input", rows)
    )
