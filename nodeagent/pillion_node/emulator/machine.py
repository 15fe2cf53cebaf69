"""Making, opening and removing emulated machines."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from pillion_node.emulator.layout import EmulatorError, library, library_directory, tables
from pillion_node.emulator.snapshot import DeviceRecord, DeviceSnapshot, read_device, read_history, read_inputs

PATH_VARIABLE: Final = "PILLION_EMULATED_GPU"
DEFAULT_PATH: Final = Path("/dev/shm/pillion-emulated-gpu")  # noqa: S108 - where shared memory is; a name of our own
MOST_DEVICES: Final = 16
GIB: Final = 1 << 30


@dataclass(frozen=True)
class MachineOptions:
    """What a machine is made of; every device is alike.

    Attributes:
        gpus: How many devices, up to 16.
        memory_bytes: Memory of each.
        name: The devices' name.
        context_bytes: Memory that each context takes by itself (a real one takes some hundred MiB).
        slice_ns: How long a context keeps the device while others have work.
        switch_ns: What a switch between contexts costs.
        queue_depth: Launches that fit into a context's queues before a launch blocks.
        host_bytes_per_us: Speed of copies between host and device.
        device_bytes_per_us: Speed of copies and sets on the device.
        default_kernel_ns: A kernel whose name, image and file say nothing takes this long.
        driver_name: NVML's driver version.
    """

    gpus: int = 1
    memory_bytes: int = 80 * GIB
    name: str = "Pillion Emulated GPU"
    context_bytes: int = 0
    slice_ns: int = 2_000_000
    switch_ns: int = 50_000
    queue_depth: int = 1024
    host_bytes_per_us: int = 25_000
    device_bytes_per_us: int = 1_000_000
    default_kernel_ns: int = 10_000
    driver_name: str = "615.00.00"


# As the C structure has them, behind the number of devices.
_NUMBERS: Final = (
    "memory_bytes",
    "context_bytes",
    "slice_ns",
    "switch_ns",
    "queue_depth",
    "host_bytes_per_us",
    "device_bytes_per_us",
    "default_kernel_ns",
)


class _Options(ctypes.Structure):
    _fields_ = (
        ("devices", ctypes.c_uint64),
        *((name, ctypes.c_uint64) for name in _NUMBERS),
        ("name", ctypes.c_char_p),
        ("driver_name", ctypes.c_char_p),
    )


def default_path() -> Path:
    """The machine that a process finds if nobody names one."""
    return Path(os.environ.get(PATH_VARIABLE) or DEFAULT_PATH)


def environment(path: Path | None = None, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a process that is to find the emulated driver and NVML, and the machine at `path`."""
    found = dict(os.environ if base is None else base)
    before = found.get("LD_LIBRARY_PATH")
    found["LD_LIBRARY_PATH"] = str(library_directory()) + (f":{before}" if before else "")
    found[PATH_VARIABLE] = str(path or default_path())
    return found


def create(path: Path | None = None, options: MachineOptions | None = None) -> Path:
    """Make a machine.

    Args:
        path: Its file; the default one if not given.
        options: What it is made of.

    Returns:
        The file.

    Raises:
        EmulatorError: There is one already, the options are out of range, or the file cannot be made.
    """
    path, options = path or default_path(), options or MachineOptions()
    for name, least, most in (("gpus", 1, MOST_DEVICES), ("memory_bytes", 1, 1 << 50), ("context_bytes", 0, 1 << 40),
                              ("slice_ns", 1000, 10**12), ("switch_ns", 0, 10**9), ("queue_depth", 1, 2048),
                              ("host_bytes_per_us", 1, 10**9), ("device_bytes_per_us", 1, 10**9),
                              ("default_kernel_ns", 1, 10**12)):  # fmt: skip
        value = getattr(options, name)
        if not least <= value <= most:
            raise EmulatorError(f"{name}={value} is not in {least} ... {most}")
    for name in ("name", "driver_name"):
        if not 0 < len(getattr(options, name).encode()) < 96:
            raise EmulatorError(f"{name} must have 1 to 95 bytes, not {getattr(options, name)!r}")
    given = _Options(
        options.gpus,
        *(getattr(options, name) for name in _NUMBERS),
        options.name.encode(),
        options.driver_name.encode(),
    )
    error = library().emu_machine_create(os.fsencode(path), ctypes.byref(given))
    if error:
        advice = "; remove it first, or use another path" if Path(path).exists() else ""
        raise EmulatorError(f"{path}: {os.strerror(error)}{advice}")
    return path


def remove(path: Path | None = None) -> None:
    """Remove a machine. Processes that use it go on with what they have mapped; new ones no longer find it.

    Raises:
        EmulatorError: There is none, or the file is something else.
    """
    path = path or default_path()
    Machine.open(path).close()
    path.unlink()


class Machine:
    """An open machine, to look at. Taking a snapshot brings the device's clock to the present, as any process does."""

    def __init__(self, path: Path, address: int) -> None:
        """For `Machine.open`."""
        self.path = path
        self._address = address
        head = tables()["emu_machine_head"]
        self.gpus = head.word(ctypes.string_at(address + head.offset_bytes, head.row_bytes), "device_count")

    @classmethod
    def open(cls, path: Path | None = None) -> Machine:
        """Open the machine at `path`, or the default one.

        Raises:
            EmulatorError: There is none, or it has another layout.
        """
        path = path or default_path()
        address = library().emu_machine_open(os.fsencode(path))
        if not address:
            reason = os.strerror(ctypes.get_errno())
            raise EmulatorError(f"{path}: no emulated GPU ({reason}); python -m pillion_node.emulator create makes one")
        return cls(path, address)

    def _copy(self, at: int, name: str, first: int, count: int) -> bytes:
        """Rows of a table, from the oldest on where it is a ring."""
        table = tables()[name]
        start = first % table.rows
        whole = min(count, table.rows - start)
        begin = at + table.offset_bytes
        rows = ctypes.string_at(begin + start * table.row_bytes, whole * table.row_bytes)
        return rows + ctypes.string_at(begin, (count - whole) * table.row_bytes)

    def _hold(self, gpu: int) -> int:
        if not 0 <= gpu < self.gpus:
            raise EmulatorError(f"gpu {gpu} is not in 0 ... {self.gpus - 1} of {self.path}")
        if not self._address:
            raise EmulatorError(f"{self.path} has been closed")
        loaded = library()
        loaded.emu_reap(self._address, 0)
        return int(loaded.emu_hold(self._address, gpu))

    def _parts(self, device: int) -> tuple[bytes, bytes, bytes]:
        head = self._copy(device, "emu_device_head", 0, 1)
        contexts = self._copy(device, "emu_context", 0, tables()["emu_context"].rows)
        return head, contexts, self._copy(self._address, "emu_process", 0, tables()["emu_process"].rows)

    def _newest(self, device: int, name: str, count: int) -> bytes:
        kept = min(count, tables()[name].rows)
        return self._copy(device, name, count - kept, kept)

    def snapshot(self, gpu: int = 0) -> DeviceSnapshot:
        """One device as it is now, after taking back what dead processes left."""
        device = self._hold(gpu)
        try:
            parts = self._parts(device)
        finally:
            library().emu_release(self._address, gpu)
        return read_device(gpu, *parts)

    def record(self, gpu: int = 0) -> DeviceRecord:
        """A snapshot with what led to it, all of one moment."""
        word = tables()["emu_device_head"].word
        device = self._hold(gpu)
        try:
            parts = self._parts(device)
            history = self._newest(device, "emu_span", word(parts[0], "history_count"))
            inputs = self._newest(device, "emu_input", word(parts[0], "input_count"))
        finally:
            library().emu_release(self._address, gpu)
        return DeviceRecord(read_device(gpu, *parts), read_history(history), read_inputs(inputs))

    def close(self) -> None:
        """Let go of the machine's memory."""
        if self._address:
            library().emu_machine_close(self._address)
            self._address = 0

    def __enter__(self) -> Machine:  # noqa: PYI034 - Self is in typing from Python 3.11 on
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
