"""admit.h from Python: one object is the admission state of one tenant. Layouts come from the library itself."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from enum import IntEnum

NEVER = 2**64 - 1


class Lease(IntEnum):
    """What the arbiter grants."""

    STOP = 0
    DRAIN = 1
    RUN = 2


class Reason(IntEnum):
    """Why an answer is what it is."""

    NO_HIGH = 0
    FITS = 1
    NO_LEASE = 2
    FULL = 3
    ONE_AT_A_TIME = 4
    OVERDUE = 5
    FED = 6
    STALL = 7
    BUSY = 8
    PRICE = 9
    CREDIT = 10


@dataclass(frozen=True)
class Answer:
    """Go now, or when to ask again."""

    go: bool
    until_ns: int
    reason: Reason


class _Field(ctypes.Structure):
    _fields_ = (
        ("of", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("offset", ctypes.c_size_t),
        ("size", ctypes.c_size_t),
    )


def _structures(lib: ctypes.CDLL) -> dict[str, type[ctypes.Structure]]:
    """Build the structures that the library describes; gaps between their fields are not expected."""
    lib.admit_fields.restype = ctypes.POINTER(_Field)
    words = {4: ctypes.c_uint32, 8: ctypes.c_uint64}
    fields: dict[str, list[tuple[str, type]]] = {}
    for field in lib.admit_fields():
        if not field.of:
            break
        fields.setdefault(field.of.decode(), []).append((field.name.decode(), words[field.size]))
    built = {of: type(of, (ctypes.Structure,), {"_fields_": of_it}) for of, of_it in fields.items()}
    for field in lib.admit_fields():
        if not field.of:
            break
        if getattr(built[field.of.decode()], field.name.decode()).offset != field.offset:
            raise RuntimeError(f"{field.of.decode()}.{field.name.decode()} does not lie where ctypes would put it")
    return built


class Admit:
    """One tenant's state; every method is the C function of that name."""

    def __init__(self, lib: ctypes.CDLL, now_ns: int = 0) -> None:
        self._lib = lib
        structures = _structures(lib)
        self._terms, self._unit, self._answer = (
            structures[name] for name in ("admit_terms", "admit_unit", "admit_answer")
        )
        lib.admit_size.restype = ctypes.c_size_t
        lib.admit_decide.restype = self._answer
        lib.admit_submitted.restype = ctypes.c_uint64
        for name in ("credit", "bucket", "charged", "expected"):
            getattr(lib, f"admit_{name}_ns").restype = ctypes.c_int64
        self._state = ctypes.create_string_buffer(lib.admit_size() + 64)
        self._at = ctypes.c_void_p((ctypes.addressof(self._state) + 63) // 64 * 64)
        lib.admit_init(self._at, ctypes.c_uint64(now_ns))

    def _word(self, value: int) -> ctypes.c_uint64:
        return ctypes.c_uint64(value)

    def set_terms(self, now_ns: int, **terms: int) -> None:
        """Set the terms; what is not named is 0."""
        self._lib.admit_set_terms(self._at, self._word(now_ns), ctypes.byref(self._terms(**terms)))

    def set_lease(self, now_ns: int, lease: Lease) -> None:
        """Change the lease."""
        self._lib.admit_set_lease(self._at, self._word(now_ns), ctypes.c_int(lease))

    def high_present(self, now_ns: int, present: bool = True, which: int = 0) -> None:
        """A high step came or left."""
        self._lib.admit_high_present(self._at, self._word(now_ns), ctypes.c_uint(which), ctypes.c_bool(present))

    def high_busy(self, now_ns: int, at_ns: int, which: int = 0) -> None:
        """A high step became busy."""
        self._lib.admit_high_busy(self._at, self._word(now_ns), ctypes.c_uint(which), self._word(at_ns))

    def high_idle(self, now_ns: int, at_ns: int, which: int = 0) -> None:
        """A high step became idle."""
        self._lib.admit_high_idle(self._at, self._word(now_ns), ctypes.c_uint(which), self._word(at_ns))

    def decide(self, now_ns: int, unit_id: int = 1, nodes: int = 1, stream: int = 0) -> Answer:
        """Ask."""
        unit = self._unit(id=unit_id, nodes=nodes, stream=stream)
        answer = self._lib.admit_decide(self._at, self._word(now_ns), ctypes.byref(unit))
        return Answer(bool(answer.go), answer.until_ns, Reason(answer.reason))

    def submitted(self, now_ns: int, unit_id: int = 1, nodes: int = 1, stream: int = 0) -> int:
        """Tell that a unit went; return its ticket."""
        unit = self._unit(id=unit_id, nodes=nodes, stream=stream)
        return int(self._lib.admit_submitted(self._at, self._word(now_ns), ctypes.byref(unit)))

    def completed(self, now_ns: int, ticket: int, done_ns: int, elapsed_ns: int, stream: int = 0) -> None:
        """Tell that all on `stream` up to `ticket` is complete."""
        self._lib.admit_completed(
            self._at, self._word(now_ns), ctypes.c_uint32(stream), self._word(ticket), self._word(done_ns),
            self._word(elapsed_ns),
        )  # fmt: skip

    @property
    def credit_ns(self) -> int:
        """What may still be stolen."""
        return int(self._lib.admit_credit_ns(self._at))

    @property
    def bucket_ns(self) -> int:
        """The most that credit may grow to."""
        return int(self._lib.admit_bucket_ns(self._at))

    @property
    def charged_ns(self) -> int:
        """All that was ever charged."""
        return int(self._lib.admit_charged_ns(self._at))

    def expected_ns(self, unit_id: int = 1, nodes: int = 1) -> int:
        """A unit's duration as far as known."""
        unit = self._unit(id=unit_id, nodes=nodes, stream=0)
        return int(self._lib.admit_expected_ns(self._at, ctypes.byref(unit)))
