"""The emulated GPU: make one, look at it, remove it.

    from pillion_node.emulator import Machine, MachineOptions, create, remove, environment

A process started with `environment(path)` finds the emulated driver and NVML instead of the real ones;
`Machine.open(path)` reads what each of its contexts got and was kept waiting. What is modelled: docs/emulated-gpu.md.
"""

from pillion_node.emulator.layout import EmulatorError, library_directory
from pillion_node.emulator.machine import Machine, MachineOptions, create, default_path, environment, remove
from pillion_node.emulator.snapshot import ContextSnapshot, DeviceRecord, DeviceSnapshot, Input, ProcessSnapshot, Span

__all__ = [
    "ContextSnapshot",
    "DeviceRecord",
    "DeviceSnapshot",
    "EmulatorError",
    "Input",
    "Machine",
    "MachineOptions",
    "ProcessSnapshot",
    "Span",
    "create",
    "default_path",
    "environment",
    "library_directory",
    "remove",
]
