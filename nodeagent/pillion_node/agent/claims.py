"""What gates say about themselves, read in one piece. Claims, never facts: see docs/gate.md."""

from __future__ import annotations

import mmap
import struct
from typing import NamedTuple

from pillion_node.pages import Layout, Page

_CODES = {4: "I", 8: "Q"}


class Claims(NamedTuple):
    """The fields of a client page that the agent uses, under their names in gate/pages.h."""

    flags: int = 0
    acknowledged_epoch: int = 0
    in_flight: int = 0
    waiting: int = 0
    submissions: int = 0
    waits: int = 0
    waited_ns: int = 0
    denied_allocations: int = 0
    drains: int = 0
    drain_ns: int = 0
    longest_unit_ns: int = 0
    device_ns: int = 0
    charged_ns: int = 0
    unknown_lookups: int = 0


class ClaimsReader:
    """Reads client pages of one layout: each field with one load, all of them in one call."""

    def __init__(self, layout: Layout) -> None:
        fields = layout.records["client"]
        self._order = tuple(sorted(Claims._fields, key=lambda name: fields[name].offset))
        code, at = "@", 0
        for name in self._order:
            code += f"{fields[name].offset - at}x{_CODES[fields[name].width_bytes]}"
            at = fields[name].offset + fields[name].width_bytes
        self._struct = struct.Struct(code)
        self._in_order = self._order == Claims._fields

    def __call__(self, memory: mmap.mmap) -> Claims:
        """Return what a page says now."""
        values = self._struct.unpack_from(memory)
        return Claims._make(values) if self._in_order else Claims(**dict(zip(self._order, values, strict=True)))


def is_busy(activity: Page) -> bool:
    """Whether a high process's page says that it has work on the GPU."""
    marks = activity["marks"]
    return bool(marks) and bool(activity.item("mark", (marks - 1) % 64) & 1)
