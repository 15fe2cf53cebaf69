"""The pages and messages that a gate and the agent share, as gate/pages.h lays them out.

The offsets come from the table in the gate's own library, so there is one definition. What a client's page says is a
claim: whoever reads it decides nothing from it that could hurt anyone but that client.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum, IntFlag
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

PROTOCOL = 1
MAGIC = 0x31474C50
PAGE_BYTES = mmap.PAGESIZE
MOST_DESCRIPTORS = 4
_F_SEAL_FUTURE_WRITE = 0x10  # Linux 5.1; the fcntl module names it from Python 3.13 on
_FIXED_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


class LayoutError(RuntimeError):
    """The gate's library speaks another version of the protocol than this module."""


class MessageError(ValueError):
    """A message that the protocol does not know."""


class State(IntEnum):
    """What a gate may do."""

    STOP = 0
    DRAIN = 1
    RUN = 2


class GateTier(IntEnum):
    """Tiers as the gate counts them."""

    LOW = 0
    NORMAL = 1
    HIGH = 2


class Kind(IntEnum):
    """Messages; gate/pages.h says who sends which, and with which descriptors."""

    HELLO = 1
    WELCOME = 2
    REFUSED = 3
    MAPPED = 4
    ACTIVITY = 5
    NEWS = 6


class Refusal(IntEnum):
    """Why an agent lets a gate go on without it."""

    VERSION = 1
    UNKNOWN = 2
    FULL = 3


class ClientFlag(IntFlag):
    """What a gate says about itself."""

    UNTRACKED = 1
    ORPHAN = 2


class Field(NamedTuple):
    """One field of a record: where it is, how wide, how many of it in a row."""

    offset: int
    width_bytes: int
    length: int


class _Row(ctypes.Structure):
    _fields_ = (
        ("record", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("offset", ctypes.c_uint32),
        ("width", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
    )


class Layout:
    """The layout that a gate's library describes, and its `publish`.

    Args:
        library: The gate's shared object. Loading it interposes nothing: it is not in the global scope.

    Raises:
        LayoutError: It speaks another version of the protocol.
    """

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library), mode=os.RTLD_LOCAL | os.RTLD_NOW)
        rows = (_Row * 1024).in_dll(self._library, "pillion_layout")
        records: dict[str, dict[str, Field]] = {}
        version = 0
        for row in rows:
            if row.record is None:
                break
            if row.record == b"protocol":
                version = row.offset
                continue
            records.setdefault(row.record.decode(), {})[row.name.decode()] = Field(row.offset, row.width, row.count)
        if version != PROTOCOL:
            raise LayoutError(
                f"{library} speaks protocol {version}, this agent speaks {PROTOCOL}: install them together"
            )
        self.records: Mapping[str, Mapping[str, Field]] = MappingProxyType(records)
        self._publish = self._library.pillion_publish
        self._publish.argtypes = (ctypes.c_void_p, ctypes.c_uint32)
        self._publish.restype = None
        fields = records["message"]
        self._message_names = tuple(sorted(fields, key=lambda name: fields[name].offset))
        self._message = struct.Struct("=" + "I" * len(fields))

    def publish(self, address: int, value: int) -> None:
        """Store `value` at `address` after all that was written before, and wake who waits for it to change."""
        self._publish(address, value)

    def pack(self, kind: Kind, **values: int) -> bytes:
        """Return a message; fields that are not given are 0."""
        values = {"magic": MAGIC, "version": PROTOCOL, "kind": kind} | values
        unknown = set(values) - set(self._message_names)
        if unknown:
            raise MessageError(f"messages have no field {', '.join(sorted(unknown))}")
        return self._message.pack(*(values.get(name, 0) for name in self._message_names))

    def unpack(self, data: bytes) -> dict[str, int]:
        """Return the fields of a message.

        Raises:
            MessageError: Not a message of this protocol. A HELLO of another version is one, so that it can be refused.
        """
        if len(data) != self._message.size:
            raise MessageError(f"a message has {self._message.size} bytes, this one {len(data)}")
        fields = dict(zip(self._message_names, self._message.unpack(data), strict=True))
        if fields["magic"] != MAGIC:
            raise MessageError(f"a message begins with {MAGIC:#x}, this one with {fields['magic']:#x}")
        if fields["kind"] not in Kind.__members__.values():
            raise MessageError(f"no message is of kind {fields['kind']}; the kinds are 1 to {max(Kind).value}")
        if fields["version"] != PROTOCOL and fields["kind"] != Kind.HELLO:
            raise MessageError(f"a {Kind(fields['kind']).name} of protocol {fields['version']}; this one is {PROTOCOL}")
        return fields


class Page:
    """One page in shared memory: fields by name, each read and written in one piece.

    Attributes:
        fd: The memfd behind it.
    """

    def __init__(self, layout: Layout, record: str, fd: int, *, writable: bool = True) -> None:
        self._layout = layout
        self._fields = layout.records[record]
        self.fd = fd
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self._memory = mmap.mmap(fd, PAGE_BYTES, flags=mmap.MAP_SHARED, prot=access)
        whole = memoryview(self._memory)
        self._views = {4: whole.cast("I"), 8: whole.cast("Q")}
        self._whole = whole
        self._address = 0
        if writable:
            anchor = ctypes.c_char.from_buffer(self._memory)
            self._address = ctypes.addressof(anchor)
            del anchor

    def __getitem__(self, name: str) -> int:
        field = self._fields[name]
        return int(self._views[field.width_bytes][field.offset // field.width_bytes])

    def __setitem__(self, name: str, value: int) -> None:
        field = self._fields[name]
        self._views[field.width_bytes][field.offset // field.width_bytes] = value

    def item(self, name: str, index: int) -> int:
        """Return one of the fields that come in a row."""
        return int(self._views[self._fields[name].width_bytes][self._place(name, index)])

    def set_item(self, name: str, index: int, value: int) -> None:
        """Set one of the fields that come in a row."""
        self._views[self._fields[name].width_bytes][self._place(name, index)] = value

    def _place(self, name: str, index: int) -> int:
        field = self._fields[name]
        if not 0 <= index < field.length:
            raise IndexError(f"{name} has {field.length} items, there is no item {index}")
        return field.offset // field.width_bytes + index

    def values(self) -> dict[str, int]:
        """Return all single fields at once."""
        return {name: self[name] for name, field in self._fields.items() if field.length == 1}

    def update(self, **values: int) -> None:
        """Write fields of a lease page that belong together, then tell the gate."""
        sequence = self["sequence"]
        self["sequence"] = sequence | 1
        self._layout.publish(self._address + self._fields["sequence"].offset, sequence | 1)
        for name, value in values.items():
            self[name] = value
        self._layout.publish(self._address + self._fields["sequence"].offset, (sequence | 1) + 1 & 0xFFFFFFFF)
        self._layout.publish(self._address + self._fields["news"].offset, self["news"] + 1 & 0xFFFFFFFF)

    def seal(self) -> None:
        """Let nobody map the page for writing from now on, nor add seals; who has it mapped keeps it.

        On kernels before 5.1, which cannot do that, the descriptor is all that could be protected, and it is not.
        """
        try:
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _F_SEAL_FUTURE_WRITE | fcntl.F_SEAL_SEAL)
        except PermissionError:  # whoever held it before has sealed it
            if not fcntl.fcntl(self.fd, fcntl.F_GET_SEALS) & _F_SEAL_FUTURE_WRITE:
                raise

    def close(self) -> None:
        """Unmap it and close its descriptor."""
        for view in self._views.values():
            view.release()
        self._whole.release()
        self._memory.close()
        os.close(self.fd)


def create_page(layout: Layout, record: str) -> Page:
    """Return a new page that can neither shrink nor grow: a gate that cut it short would take its reader down."""
    fd = os.memfd_create(f"pillion-{record}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, PAGE_BYTES)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _FIXED_SIZE)
    page = Page(layout, record, fd)
    page["magic"], page["version"] = MAGIC, PROTOCOL
    return page


def adopt_activity(layout: Layout, fd: int) -> Page:
    """Return the activity page that a high gate brought along, if it is one.

    Raises:
        MessageError: It is not a memfd of fixed size: mapping it could take its readers down.
    """
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        raise MessageError("an activity page has to be a memfd") from None
    if seals & _FIXED_SIZE != _FIXED_SIZE or os.fstat(fd).st_size != PAGE_BYTES:
        raise MessageError("an activity page has a fixed size of one page")
    return Page(layout, "activity", fd, writable=False)


def send(connection: socket.socket, data: bytes, descriptors: Sequence[int] = ()) -> None:
    """Send one message, with its descriptors."""
    socket.send_fds(connection, [data], list(descriptors))


def receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Return the next message and its descriptors, which the caller closes; no bytes: the other side is gone."""
    data, descriptors, _, _ = socket.recv_fds(connection, 256, MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    return data, list(descriptors)
