"""Quantities of the contract: strict readers and canonical writers.

A reader takes the text of one annotation value and returns it in the unit that its name says, or raises
`BadValueError`. A writer is the inverse and gives one spelling only, so that equal policies have equal bytes.
"""

from __future__ import annotations

import re
from decimal import Decimal
from enum import Enum
from typing import NamedTuple

# Long digit strings are refused before they are turned into numbers: nobody means them, and they cost time.
_MAX_TEXT = 32
# Compiled at first use, by `_match`: a step that is only being imported needs none of them.
_DECIMAL = r"[0-9]+(\.[0-9]+)?"
_MILLI = r"([0-9]+)m"
_DURATION = r"([0-9]+(?:\.[0-9]+)?)(us|ms|s)"
_QUANTITY = r"([0-9]+(?:\.[0-9]+)?)(|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)"
_MISSPELT_QUANTITY = r"([0-9]+(?:\.[0-9]+)?)\s*([KkMmGgTtPp])(i?)[Bb]?"
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"

SHARE_MIN_MILLI, SHARE_MAX_MILLI = 10, 1000
SLOWDOWN_MIN_PPM, SLOWDOWN_MAX_PPM = 1_000, 500_000
STALL_MIN_NS, STALL_MAX_NS = 100_000, 10_000_000_000
# Below this no CUDA context comes up, and a number without a unit ("8" for "8Gi") always lands here.
MEMORY_MIN_BYTES = 1 << 20
# The size of the largest installed GPU memories is some 10^11 bytes; the bound keeps sums in 64 bits.
MEMORY_MAX_BYTES = 1 << 50

_BYTES = {
    "": 1,
    **{unit: 1000**power for power, unit in enumerate(("k", "M", "G", "T", "P"), start=1)},
    **{unit: 1024**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), start=1)},
}
_NANOSECONDS = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


class BadValueError(Exception):
    """A value that a reader refused. `allowed` and `fix` are the parts of the message that the reader knows."""

    def __init__(self, allowed: str, fix: str = "") -> None:
        self.allowed = allowed
        self.fix = fix
        super().__init__(allowed)


class Tier(str, Enum):
    """Who goes first."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class OnPreempt(str, Enum):
    """What a step does when a higher tier needs its room."""

    WAIT = "wait"
    SUSPEND = "suspend"
    EVICT = "evict"


class Memory(NamedTuple):
    """An amount of GPU memory. Compares by `size_bytes`; `text` keeps the unit the author chose."""

    size_bytes: int
    text: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Memory) and self.size_bytes == other.size_bytes

    def __hash__(self) -> int:
        return hash(self.size_bytes)


def _match(pattern: str, text: str) -> re.Match[str] | None:
    return re.fullmatch(pattern, text, re.ASCII)


def _plain(number: Decimal) -> str:
    """Write `number` without exponent and without trailing zeros."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _share_milli(text: str, noun: str) -> int:
    allowed = f"{noun} is at least 0.01 and at most 1, such as 0.5 or 500m"
    if len(text) > _MAX_TEXT:
        raise BadValueError(allowed)
    if milli := _match(_MILLI, text):
        value = Decimal(milli[1])
    elif _match(_DECIMAL, text):
        value = Decimal(text) * 1000
    elif _match(_DECIMAL, text.replace(",", ".", 1)):
        raise BadValueError(allowed, f'write "{text.replace(",", ".")}"')
    elif text.endswith("%") and _match(_DECIMAL, text[:-1]):
        raise BadValueError(allowed, f'write "{_plain(Decimal(text[:-1]) / 100)}"')
    else:
        raise BadValueError(allowed)
    if value > SHARE_MAX_MILLI:
        raise BadValueError(allowed, "one step shares one GPU; a step that needs more asks for whole GPUs instead")
    if value < SHARE_MIN_MILLI:
        raise BadValueError(allowed, "a step that needs no guaranteed time is a low step without a share")
    if value != int(value):
        raise BadValueError(f"{noun} has at most three decimals", f'write "{_plain(round(value) / Decimal(1000))}"')
    return int(value)


def read_share(text: str) -> int:
    """Read a share in thousandths of one GPU's time, 10 to 1000, from `0.5` or `500m`."""
    return _share_milli(text, "a share")


def read_limit(text: str) -> int:
    """Read a limit in thousandths of one GPU's time, 10 to 1000, from `0.5` or `500m`."""
    return _share_milli(text, "a limit")


def write_milli(value: int) -> str:
    """Write thousandths as a decimal fraction: 500 is `0.5`."""
    return _plain(Decimal(value) / 1000)


def read_slowdown(text: str) -> int:
    """Read a slowdown in parts per million, 1,000 to 500,000, from `1%`."""
    allowed = "a max-slowdown is a percentage from 0.1% to 50%, such as 1%"
    if len(text) > _MAX_TEXT or not text.endswith("%") or not _match(_DECIMAL, text[:-1]):
        bare = _match(_DECIMAL, text) and len(text) <= _MAX_TEXT
        raise BadValueError(
            allowed, f'"{text}%" or "{_plain(Decimal(text) * 100)}%", whichever is meant' if bare else ""
        )
    ppm = Decimal(text[:-1]) * 10_000
    if not SLOWDOWN_MIN_PPM <= ppm <= SLOWDOWN_MAX_PPM:
        raise BadValueError(allowed)
    if ppm != int(ppm):
        raise BadValueError("a max-slowdown has at most four decimals", f'write "{write_slowdown(round(ppm))}"')
    return int(ppm)


def write_slowdown(ppm: int) -> str:
    """Write parts per million as a percentage: 10,000 is `1%`."""
    return f"{_plain(Decimal(ppm) / 10_000)}%"


def read_stall(text: str) -> int:
    """Read a stall in nanoseconds, 0.1 ms to 10 s, from `10ms`, `1.5s` or `250us`."""
    allowed = "a max-stall is a time from 0.1ms to 10s, such as 10ms"
    match = _match(_DURATION, text) if len(text) <= _MAX_TEXT else None
    if not match:
        bare = len(text) <= _MAX_TEXT and _match(_DECIMAL, text)
        raise BadValueError(allowed, f'add the unit: "{text}ms" or "{text}s"' if bare else "")
    nanoseconds = Decimal(match[1]) * _NANOSECONDS[match[2]]
    if not STALL_MIN_NS <= nanoseconds <= STALL_MAX_NS:
        raise BadValueError(allowed)
    if nanoseconds % 1000:
        raise BadValueError("a max-stall is a whole number of microseconds")
    return int(nanoseconds)


def write_stall(nanoseconds: int) -> str:
    """Write nanoseconds in milliseconds below one second and in seconds from there on."""
    unit = "s" if nanoseconds >= _NANOSECONDS["s"] else "ms"
    return f"{_plain(Decimal(nanoseconds) / _NANOSECONDS[unit])}{unit}"


def read_memory(text: str) -> Memory:
    """Read a Kubernetes quantity of GPU memory, 1Mi to 1Pi.

    Exponents (`8e9`) and milli-units are legal quantities but never how anyone writes memory; they are refused.
    """
    allowed = "a memory is a Kubernetes quantity from 1Mi to 1Pi, such as 8Gi or 500M"
    match = _match(_QUANTITY, text) if len(text) <= _MAX_TEXT else None
    if not match:
        typo = _match(_MISSPELT_QUANTITY, text)
        usual = "" if not typo else f"{typo[1]}{typo[2].upper()}{typo[3]}"
        raise BadValueError(allowed, f'write "{usual}"' if _match(_QUANTITY, usual) and len(text) <= _MAX_TEXT else "")
    number, unit = Decimal(match[1]), match[2]
    size = number * _BYTES[unit]
    if size < MEMORY_MIN_BYTES:
        raise BadValueError(allowed, f'add the unit: "{text}Gi" or "{text}Mi"' if not unit else "")
    if size > MEMORY_MAX_BYTES:
        raise BadValueError(allowed)
    if size != int(size):
        raise BadValueError("a memory is a whole number of bytes")
    return Memory(int(size), f"{_plain(number)}{unit}")


def write_memory(memory: Memory) -> str:
    """Write an amount of memory in the unit that its author chose."""
    return memory.text


def read_tier(text: str) -> Tier:
    """Read a tier by its exact name."""
    return Tier(_one_of(text, "a priority", [tier.value for tier in Tier]))


def read_on_preempt(text: str) -> OnPreempt:
    """Read an on-preempt action by its exact name."""
    return OnPreempt(_one_of(text, "an on-preempt", [action.value for action in OnPreempt]))


def _one_of(text: str, noun: str, names: list[str]) -> str:
    if text not in names:
        folded = text.strip().lower()
        raise BadValueError(f"{noun} is one of {', '.join(names)}", f'write "{folded}"' if folded in names else "")
    return text


def read_container(text: str) -> str:
    """Read a container's name: a DNS label, at most 63 characters (RFC 1123, as Kubernetes requires)."""
    if not _match(_DNS_LABEL, text):
        raise BadValueError("a container's name has at most 63 of a-z, 0-9 and -, with - neither first nor last")
    return text
