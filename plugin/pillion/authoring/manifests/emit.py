"""Writing new values as text: block lines, flow text, or JSON, to fit in with what stands around them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

# Text that is text to every YAML reader without quotes: words, and amounts such as 8Gi. Everything that might be a
# number, a date or a special character is quoted instead, which is never wrong.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*|[0-9]+[KMGTP]i", re.ASCII)
_NOT_TEXT = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf", "infinity"})
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def quoted(text: str) -> str:
    """Write text in double quotes, as both YAML and JSON read it."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    # Beyond the basic plane YAML allows every character as it is, and JSON has no single escape for it.
    return character if character.isprintable() or ord(character) > 0xFFFF else f"\\u{ord(character):04x}"


def is_plain(text: str) -> bool:
    """Whether text needs no quotes."""
    return bool(_PLAIN.fullmatch(text)) and text.lower() not in _NOT_TEXT


def scalar(value: Any, *, json: bool = False) -> str:
    """Write a string, number, boolean or None on one line."""
    if isinstance(value, str):
        return value if is_plain(value) and not json else quoted(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):  # noqa: PLR0124 - NaN
        return ".nan" if value != value else f"{'-' if value < 0 else ''}.inf"  # noqa: PLR0124
    return repr(value)


@dataclass(frozen=True)
class Flow:
    """How flow collections are written here.

    Attributes:
        json: Whether every string is quoted.
        colon: What separates a key from its value.
        comma: What separates entries on one line.
        newline: Line break and indentation before an entry; None where a collection stays on one line.
        unit: What one more level of indentation adds.
    """

    json: bool = False
    colon: str = ": "
    comma: str = ", "
    newline: str | None = None
    unit: str = "  "

    def deeper(self) -> Flow:
        """Return the same, one level of indentation further in."""
        newline = None if self.newline is None else self.newline + self.unit
        return Flow(self.json, self.colon, self.comma, newline, self.unit)

    def entry(self, key: str, value: Any) -> str:
        """Write one entry of a mapping that is itself written like this."""
        return f"{scalar(key, json=self.json)}{self.colon}{self.value(value)}"

    def value(self, value: Any) -> str:
        """Write a value that stands in a collection that is itself written like this."""
        if isinstance(value, dict) and value:
            return self._collection("{}", [self.deeper().entry(key, below) for key, below in value.items()])
        if isinstance(value, list) and value:
            return self._collection("[]", [self.deeper().value(item) for item in value])
        if isinstance(value, dict | list):
            return "{}" if isinstance(value, dict) else "[]"
        return scalar(value, json=self.json)

    def _collection(self, brackets: str, entries: list[str]) -> str:
        if self.newline is None:
            return brackets[0] + self.comma.join(entries) + brackets[1]
        inner = self.newline + self.unit
        return f"{brackets[0]}{inner}{f',{inner}'.join(entries)}{self.newline}{brackets[1]}"


def block_entry(key: str, value: Any, indent: str, unit: str) -> list[str]:
    """Write one entry of a block mapping as lines that begin with `indent`."""
    name = f"{indent}{scalar(key)}:"
    if isinstance(value, dict) and value:
        return [name, *block_mapping(value, indent + unit, unit)]
    if isinstance(value, list) and value:
        return [name, *(line for item in value for line in block_item(item, indent, unit))]
    return [f"{name} {Flow().value(value)}"]


def block_mapping(value: dict[str, Any], indent: str, unit: str) -> list[str]:
    """Write the entries of a block mapping as lines that begin with `indent`."""
    return [line for key, below in value.items() for line in block_entry(key, below, indent, unit)]


def block_item(value: Any, indent: str, unit: str) -> list[str]:
    """Write one item of a block list as lines that begin with `indent`."""
    if isinstance(value, dict) and value:
        lines = block_mapping(value, f"{indent}  ", unit)
        return [f"{indent}- {lines[0].lstrip(' ')}", *lines[1:]]
    return [f"{indent}- {Flow().value(value)}"]
