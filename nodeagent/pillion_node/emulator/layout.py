"""The shared file's layout, as the C library that wrote it describes it."""

from __future__ import annotations

import ctypes
import functools
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LAYOUT_VERSION: Final = 1
LIBRARY: Final = "libpillion-emulator.so"


class EmulatorError(RuntimeError):
    """Something about an emulated machine that the caller can put right; the message says how."""


@dataclass(frozen=True)
class Field:
    """One field of a table's rows: `count` 64-bit words from `offset_bytes` on."""

    offset_bytes: int
    count: int


@dataclass(frozen=True)
class Table:
    """Rows of equal size, from `offset_bytes` of what the table is part of."""

    offset_bytes: int
    row_bytes: int
    rows: int
    fields: dict[str, Field]

    def words(self, row: bytes, name: str) -> tuple[int, ...]:
        """All words of a field, unsigned."""
        field = self.fields[name]
        return struct.unpack_from(f"<{field.count}Q", row, field.offset_bytes)

    def word(self, row: bytes, name: str) -> int:
        """The one word of a field."""
        return int(struct.unpack_from("<Q", row, self.fields[name].offset_bytes)[0])

    def text(self, row: bytes, name: str) -> str:
        """The NUL-terminated text in a field's words."""
        field = self.fields[name]
        raw = row[field.offset_bytes : field.offset_bytes + 8 * field.count]
        return raw.split(b"\0", 1)[0].decode()


class _Field(ctypes.Structure):
    _fields_ = (
        ("table", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("offset", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
    )


class _Table(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("offset", ctypes.c_uint64),
        ("row_bytes", ctypes.c_uint64),
        ("rows", ctypes.c_uint64),
    )


def library_directory() -> Path:
    """Where the emulated libraries are: in this package, or where PILLION_EMULATED_LIBRARIES says (another build)."""
    elsewhere = os.environ.get("PILLION_EMULATED_LIBRARIES")
    return Path(elsewhere) if elsewhere else Path(__file__).resolve().parent.parent / "lib" / "emulated"


@functools.cache
def library() -> ctypes.CDLL:
    """The library behind this package, loaded when first needed.

    Raises:
        EmulatorError: It is not there (the package was not built on this kind of machine), or has another layout.
    """
    path = library_directory() / LIBRARY
    if not path.is_file():
        raise EmulatorError(
            f"{path} is missing: the emulated GPU is built with the package, on Linux (x86-64 or aarch64)"
        )
    loaded = ctypes.CDLL(str(path), use_errno=True)
    version = ctypes.c_uint64.in_dll(loaded, "emu_layout_version").value
    if version != LAYOUT_VERSION:
        raise EmulatorError(
            f"{path} has layout {version}, this package reads {LAYOUT_VERSION}: install them from one build"
        )
    loaded.emu_layout_fields.restype = ctypes.POINTER(_Field)
    loaded.emu_layout_tables.restype = ctypes.POINTER(_Table)
    loaded.emu_machine_open.restype = ctypes.c_void_p
    loaded.emu_machine_open.argtypes = (ctypes.c_char_p,)
    loaded.emu_machine_close.argtypes = (ctypes.c_void_p,)
    loaded.emu_hold.restype = ctypes.c_void_p
    loaded.emu_hold.argtypes = (ctypes.c_void_p, ctypes.c_uint)
    loaded.emu_release.argtypes = (ctypes.c_void_p, ctypes.c_uint)
    loaded.emu_reap.argtypes = (ctypes.c_void_p, ctypes.c_uint64)
    return loaded


@functools.cache
def tables() -> dict[str, Table]:
    """Every table of the layout, by the name of its C structure."""
    loaded = library()
    fields: dict[str, dict[str, Field]] = {}
    rows = loaded.emu_layout_fields()
    for row in rows:
        if row.table is None:
            break
        fields.setdefault(row.table.decode(), {})[row.name.decode()] = Field(row.offset, row.count)
    found: dict[str, Table] = {}
    for row in loaded.emu_layout_tables():
        if row.name is None:
            break
        name = row.name.decode()
        found[name] = Table(row.offset, row.row_bytes, row.rows, fields.get(name, {}))
    return found
