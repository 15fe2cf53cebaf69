"""How a document is laid out: where each entry's key and value stand in the text, indentation, line breaks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from pillion.authoring.manifests.document import Collection, Key, Node

_GAP = r"(?:\s|#[^\n]*(?:\n|\Z))*"
_COLON = re.compile(_GAP + ":")
_DASH = re.compile(_GAP + "-")
_ALIAS = re.compile(_GAP + r"(\*[\w-]+)", re.ASCII)
# An anchor and a tag, in either order, in front of what they belong to.
_PROPERTIES = re.compile(r"(?:[&!][^\s,\[\]{}]*(?:" + _GAP + r"(?=[^\s#])|\s*\Z)?)*")
_BLOCK_SCALAR = re.compile(r"[|>][0-9]?([+-]?)")


@dataclass(frozen=True)
class Entry:
    """One entry of a mapping, or one item of a list.

    Attributes:
        name: The key, or the index; None where a key is not text.
        node: The value; of an alias, the value that it stands for.
        start: Where the entry begins: its key, or its dash.
        after: The offset behind what introduces the value: the colon, the dash, the comma or bracket.
        value_start: Where the value itself begins, behind its anchor and tag; an empty value is where one would go.
        value_end: Where it ends; trailing comments and blank lines do not belong to it.
        is_alias: Whether the value is written as `*name`.
        is_bare: Whether it is a key in flow style without colon and value.
        is_open: Whether adding a line break behind the value would change it: a block scalar that ends with the file.
    """

    name: Key | None
    node: Node
    start: int
    after: int
    value_start: int
    value_end: int
    is_alias: bool = False
    is_bare: bool = False
    is_open: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written where the value belongs."""
        return self.value_start == self.value_end


def entries(text: str, node: Collection) -> list[Entry]:
    """Return the entries of a mapping or the items of a list, in the order of the text."""
    if isinstance(node, yaml.MappingNode):
        return [_of_pair(text, key, value) for key, value in node.value]
    return list(_items(text, node))


def _of_pair(text: str, key: Node, value: Node) -> Entry:
    name = key.value if isinstance(key, yaml.ScalarNode) else None
    colon = _COLON.match(text, key.end_mark.index)
    if colon is None:
        end = key.end_mark.index
        return Entry(name, value, key.start_mark.index, end, end, end, is_bare=True)
    return _entry(text, name, key.start_mark.index, colon.end(), value)


def _items(text: str, node: Collection) -> Iterator[Entry]:
    end = _behind_properties(text, node)
    for index, item in enumerate(node.value):
        if node.flow_style:
            start = after = _behind(text, end, "," if index else "[")
        else:
            dash = _DASH.match(text, end)
            after = dash.end() if dash else item.start_mark.index
            start = after - 1
        entry = _entry(text, index, start, after, item)
        yield entry
        end = entry.value_end


def _behind(text: str, start: int, character: str) -> int:
    match = re.compile(_GAP + re.escape(character)).match(text, start)
    return match.end() if match else start


def _entry(text: str, name: Key | None, start: int, after: int, node: Node) -> Entry:
    if node.start_mark.index < after:
        # The parser puts the anchored node itself in an alias's place; only the text knows where the alias stands.
        alias = _ALIAS.match(text, after)
        value_start, value_end = alias.span(1) if alias else (after, after)
        return Entry(name, node, start, after, value_start, value_end, is_alias=True)
    end, is_open = _content_end(text, node)
    value_start = min(_behind_properties(text, node), end)
    if isinstance(node, yaml.ScalarNode) and not node.style and not node.value:
        written = text[node.start_mark.index : end].rstrip()
        value_start = end = node.start_mark.index + len(written) if written else after
    return Entry(name, node, start, after, value_start, end, is_open=is_open)


def _behind_properties(text: str, node: Node) -> int:
    match = _PROPERTIES.match(text, node.start_mark.index)
    return match.end() if match else node.start_mark.index


def _content_end(text: str, node: Node) -> tuple[int, bool]:
    """Return where a value's own text ends, and whether it is open; the parser's marks include what trails it."""
    end = node.end_mark.index
    if isinstance(node, yaml.ScalarNode):
        return _block_scalar_end(text, node) if node.style in ("|", ">") else (end, False)
    if not isinstance(node, Collection) or node.flow_style or not node.value:
        return end, False
    if isinstance(node, yaml.MappingNode):
        last = _of_pair(text, *node.value[-1])
        return last.value_end, last.is_open
    item = node.value[-1]
    if item.start_mark.index < node.start_mark.index or any(other is item for other in node.value[:-1]):
        return _without_trailing_comments(text, end), False
    return _content_end(text, item)


def _block_scalar_end(text: str, node: Node) -> tuple[int, bool]:
    start, end = _behind_properties(text, node), node.end_mark.index
    header = _BLOCK_SCALAR.match(text, start)
    chomping = header[1] if header else ""
    ends_file = "\n" not in text[start + len(text[start:end].rstrip()) :]
    if chomping == "+" and not ends_file:
        return end - 1, False
    return start + len(text[start:end].rstrip()), ends_file and chomping != "-"


def _without_trailing_comments(text: str, end: int) -> int:
    while True:
        end = len(text[:end].rstrip())
        line_start = text.rfind("\n", 0, end) + 1
        if not text[line_start:end].lstrip().startswith("#"):
            return end
        end = line_start


def column_indent(text: str, offset: int) -> str:
    """Return the spaces that put a new line's text below the character at `offset`."""
    return " " * (offset - text.rfind("\n", 0, offset) - 1)


def line_break(text: str) -> str:
    """Return the line break that the file uses."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def indent_unit(root: Collection) -> str:
    """Return one level of indentation as the document's own first nested mapping has it; two spaces if none has."""
    for key, value in root.value:
        if isinstance(value, yaml.MappingNode) and value.value and not value.flow_style:
            width: int = value.value[0][0].start_mark.column - key.start_mark.column
            if width > 0:
                return " " * width
    return "  "


def flow_indent(text: str, node: Collection) -> str | None:
    """Return the line break and indentation before a flow collection's first entry; None if it is on the same line."""
    first: Node = node.value[0][0] if isinstance(node, yaml.MappingNode) else node.value[0]
    line_start = text.rfind("\n", 0, first.start_mark.index) + 1
    indent = text[line_start : first.start_mark.index]
    return line_break(text) + indent if line_start > node.start_mark.index and not indent.strip() else None
