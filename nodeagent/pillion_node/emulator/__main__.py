"""`python -m pillion_node.emulator create | show | remove`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
from pathlib import Path

from pillion_node.emulator.layout import EmulatorError, library_directory
from pillion_node.emulator.machine import PATH_VARIABLE, Machine, MachineOptions, create, default_path, remove
from pillion_node.emulator.snapshot import DeviceSnapshot

_BYTES = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
_NANOSECONDS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def _quantity(text: str, units: dict[str, int]) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]*)", text)
    if match is None or match[2] not in units:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number with one of {', '.join(u or 'no unit' for u in units)}"
        )
    return round(float(match[1]) * units[match[2]])


def _bytes(text: str) -> int:
    return _quantity(text, _BYTES)


def _nanoseconds(text: str) -> int:
    return _quantity(text, _NANOSECONDS)


def _parser() -> argparse.ArgumentParser:
    standard = MachineOptions()
    parser = argparse.ArgumentParser(
        prog="python -m pillion_node.emulator",
        description="A GPU that is not there: processes that find its libraries share its time and memory.",
    )
    path = argparse.ArgumentParser(add_help=False)
    path.add_argument("--path", type=Path, help=f"the machine's file (default: ${PATH_VARIABLE}, or {default_path()})")
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("create", parents=[path], help="make a machine")
    make.add_argument("--gpus", type=int, default=standard.gpus, help="how many devices (default: %(default)s)")
    make.add_argument("--memory", type=_bytes, default=standard.memory_bytes, metavar="SIZE", help="of each, e.g. 80Gi")
    make.add_argument("--name", default=standard.name, help="the devices' name (default: %(default)s)")
    make.add_argument("--slice", type=_nanoseconds, default=standard.slice_ns, metavar="TIME", help="default: 2ms")
    make.add_argument("--switch", type=_nanoseconds, default=standard.switch_ns, metavar="TIME", help="default: 50us")
    make.add_argument("--queue-depth", type=int, default=standard.queue_depth, help="launches (default: %(default)s)")
    make.add_argument(
        "--context-memory", type=_bytes, default=0, metavar="SIZE", help="each context's own (default: 0)"
    )
    make.add_argument("--kernel-time", type=_nanoseconds, default=standard.default_kernel_ns, metavar="TIME",
                      help="of a kernel that nothing else is known about (default: 10us)")  # fmt: skip
    look = commands.add_parser("show", parents=[path], help="what each device and context did")
    look.add_argument("--json", action="store_true", help="everything, for programs")
    commands.add_parser("remove", parents=[path], help="remove a machine")
    return parser


def _describe(device: DeviceSnapshot) -> list[str]:
    wall = max(device.clock_ns - device.started_ns, 1)
    used, capacity = device.memory_used_bytes / 2**20, device.memory_bytes / 2**20
    share = f"busy {device.busy_ns / wall:.1%}   switching {device.switching_ns / wall:.1%}"
    lines = [
        f"GPU {device.index}  {device.name}  {device.uuid}",
        f"  memory {used:.0f} of {capacity:.0f} MiB   {share}   {device.activity}",
    ]
    lines += [
        f"  context {c.id}  pid {c.pid}{'' if c.live else ' (ended)'}  busy {c.busy_ns / 1e6:.1f} ms"
        f"  waited {c.wait_ns / 1e6:.1f} ms  launches {c.launches}  graphs {c.graph_launches}"
        for c in device.contexts
    ]
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 0, or 1 with the reason on standard error."""
    given = _parser().parse_args(arguments)
    try:
        if given.command == "create":
            made = create(given.path, MachineOptions(
                gpus=given.gpus, memory_bytes=given.memory, name=given.name, context_bytes=given.context_memory,
                slice_ns=given.slice, switch_ns=given.switch, queue_depth=given.queue_depth,
                default_kernel_ns=given.kernel_time,
            ))  # fmt: skip
            sys.stdout.write(f"export {PATH_VARIABLE}={made} LD_LIBRARY_PATH={library_directory()}\n")
        elif given.command == "remove":
            remove(given.path)
        else:
            with Machine.open(given.path) as machine:
                devices = [machine.snapshot(gpu) for gpu in range(machine.gpus)]
            if given.json:
                sys.stdout.write(json.dumps([dataclasses.asdict(device) for device in devices]) + "\n")
            else:
                sys.stdout.write("\n".join(line for device in devices for line in _describe(device)) + "\n")
    except EmulatorError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
