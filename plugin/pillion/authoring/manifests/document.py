"""YAML and JSON files as plain data in which every value still knows its place in the text.

The text itself is never written back from the data: whoever changes a manifest splices into the text at the offsets
that are kept here, so that everything untouched keeps its bytes. libyaml's parser is used for its speed and its marks.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml._yaml import CParser

from pillion.authoring.findings import Finding, ManifestError, Position
from pillion.policy import Problem, echo

MAX_FILE_BYTES = 50 << 20
# A value reached through aliases counts each time it is reached. A YAML bomb passes this at once, no manifest does.
MAX_EXPANDED_NODES = 2_000_000
# Far above what any kind needs, and far below what a recursive reader can follow.
MAX_DEPTH = 100

Key = str | int
Path_ = tuple[Key, ...]
Node = yaml.nodes.Node
Collection = yaml.nodes.CollectionNode

# What a plain scalar means to the Go parsers behind kubectl and Argo: a number, a boolean or null where it looks like
# one under YAML 1.1 or 1.2, else text.
_INTEGER = re.compile(r"[-+]?(0b[01]+|0o[0-7]+|0x[0-9a-fA-F]+|[0-9][0-9_]*)", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_MAX_NUMBER = 400  # characters; longer digit strings are nobody's number, and Python refuses to convert them
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})


# The C parser builds the node tree and calls these by position; resolving tags is left to `_scalar`.
class _Composer(CParser):
    def resolve(self, _kind: type, _value: object, _implicit: object) -> str:
        return ""

    def descend_resolver(self, _current: object, _index: object) -> None:
        pass

    def ascend_resolver(self) -> None:
        pass


@dataclass(frozen=True, eq=False)
class Document:
    """One document of a file.

    Attributes:
        file: The name that messages use.
        node: Its root, a mapping node; marks count characters in the whole file's text.
        data: Its value as plain dicts, lists, strings, numbers, booleans and None. Aliases share objects.
        start: Offset at which its text begins, with the comments and markers before it.
        end: Offset at which its root ends; in block style comments that follow it are before that.
        problems: What is wrong with it as YAML, such as duplicate keys; the data holds the last value of such a key.
    """

    file: str
    node: yaml.nodes.MappingNode
    data: dict[str, Any]
    start: int
    end: int
    problems: tuple[Finding, ...] = field(default=())

    @property
    def kind(self) -> str:
        """The Kubernetes kind, or an empty string (KFP's intermediate representation has none)."""
        kind = self.data.get("kind")
        return kind if isinstance(kind, str) else ""

    def node_at(self, path: Path_) -> Node | None:
        """Return the value node at `path`, or None where there is none. Aliases and merge keys are followed."""
        node: Node | None = self.node
        for key in path:
            node = child(node, key)
        return node

    def position(self, path: Path_) -> Position:
        """Return where `path` is said: its key in a mapping, its item in a list, else its nearest existing ancestor."""
        node: Node = self.node
        place = node
        for key in path:
            entry = _key_node(node, key)
            below = child(node, key)
            if below is None:
                break
            place, node = entry or below, below
        return position_of(place)

    def finding(self, path: Path_, problem: Problem, *, warning: bool = False) -> Finding:
        """Return `problem` as a finding at `path`."""
        return Finding(self.file, self.position(path), problem, "warning" if warning else "error")


def position_of(node: Node) -> Position:
    """Return where a node begins."""
    return Position(node.start_mark.line + 1, node.start_mark.column + 1)


def child(node: Node | None, key: Key) -> Node | None:
    """Return the value node below `node` at `key`, following merge keys; the last of duplicate keys, as in the data."""
    if isinstance(node, yaml.MappingNode) and isinstance(key, str):
        own = [value for name, value in node.value if isinstance(name, yaml.ScalarNode) and name.value == key]
        if own:
            found: Node = own[-1]
            return found
        for name, value in node.value:
            if _is_merge(name):
                for merged in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    below = child(merged, key)
                    if below is not None:
                        return below
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and 0 <= key < len(node.value):
        item: Node = node.value[key]
        return item
    return None


def _key_node(node: Node, key: Key) -> Node | None:
    if isinstance(node, yaml.MappingNode):
        names = [name for name, _ in node.value if isinstance(name, yaml.ScalarNode) and name.value == key]
        return names[-1] if names else None
    return None


def _is_merge(name: Node) -> bool:
    return isinstance(name, yaml.ScalarNode) and name.value == "<<" and not name.style


def read_text(path: Path) -> str:
    """Read a manifest file.

    Raises:
        ManifestError: It is too large, binary, or not UTF-8.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return decode(file.read(MAX_FILE_BYTES + 1), str(path))


def decode(raw: bytes, file: str) -> str:
    """Return a manifest's bytes as text; `file` is the name that messages use.

    Raises:
        ManifestError: They are too many, binary, or not UTF-8.
    """
    if len(raw) > MAX_FILE_BYTES:
        raise _refusal(
            file, "file-too-large", f"the file has more than {MAX_FILE_BYTES >> 20} MiB",
            "a manifest has less; the API server takes 3 MiB an object", "split it",
        )  # fmt: skip
    if b"\0" in raw:
        raise _refusal(file, "not-text", "the file is binary", "a manifest is YAML or JSON text")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        place = Position(raw.count(b"\n", 0, error.start) + 1, error.start - raw.rfind(b"\n", 0, error.start))
        problem = Problem("not-text", f"byte {raw[error.start]:#04x} is not UTF-8", "a manifest is UTF-8 text")
        raise ManifestError([Finding(file, place, problem)]) from None


def _refusal(file: str, code: str, what: str, allowed: str, fix: str = "") -> ManifestError:
    return ManifestError([Finding(file, Position(1, 1), Problem(code, what, allowed, fix))])


@contextmanager
def without_collector() -> Iterator[None]:
    """Pause cyclic garbage collection: over a growing tree of nodes it finds nothing and takes most of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def parse(text: str, file: str) -> Iterator[Document]:
    """Parse a file document by document, so that a large one need not be held as a whole; empty ones are dropped.

    Raises:
        ManifestError: The text is not YAML or JSON, holds no document, or a document is not a mapping or is a bomb.
    """
    count = start = 0
    nodes = _compose(text, file)
    while True:
        with without_collector():
            node = next(nodes, None)
            document = _document(node, file, start) if node is not None else None
        if document is None:
            break
        count += 1
        start = document.end
        yield document
    if not count:
        raise _refusal(file, "empty-file", "the file holds no document", "a manifest holds at least one")


def _compose(text: str, file: str) -> Iterator[Node]:
    try:
        composer = _Composer(text)
        while composer.check_node():
            node = composer.get_node()
            empty = isinstance(node, yaml.ScalarNode) and not node.style and node.value in _NULL
            if node is not None and not empty:
                yield node
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Position(mark.line + 1, mark.column + 1) if mark else Position(1, 1)
        what = " ".join(part for part in (error.context, error.problem) if part)
        raise ManifestError([Finding(file, place, Problem("yaml-syntax", what, _syntax_hint(text, place)))]) from None
    except yaml.YAMLError as error:
        # Characters that YAML forbids are reported without a mark that counts lines.
        offset = getattr(error, "position", 0)
        place = Position(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))
        reason = getattr(error, "reason", None) or "the text cannot be read"
        raise ManifestError([Finding(file, place, Problem("yaml-syntax", str(reason), "YAML or JSON"))]) from None


def _syntax_hint(text: str, place: Position) -> str:
    lines = text.split("\n")
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "YAML is indented with spaces, never with tabs"
    return "this is neither YAML nor JSON"


def _document(node: Node, file: str, start: int) -> Document:
    if not isinstance(node, yaml.MappingNode):
        given = "a list" if isinstance(node, yaml.SequenceNode) else echo(node.value)
        problem = Problem(
            "not-a-mapping", f"the document is {given}", "a manifest is a mapping with kind and apiVersion"
        )
        raise ManifestError([Finding(file, position_of(node), problem)])
    converter = _Converter(file)
    data = converter.value(node)
    if converter.expanded(node) > MAX_EXPANDED_NODES:
        problem = Problem(
            "yaml-bomb", f"aliases expand this document to over {MAX_EXPANDED_NODES} values",
            "aliases may repeat a value, not multiply it", "write the values out",
        )  # fmt: skip
        raise ManifestError([Finding(file, position_of(node), problem)])
    return Document(file, node, data, start, node.end_mark.index, tuple(converter.problems))


class _Converter:
    """Node tree to plain data; one node reached through several aliases becomes one object."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._made: dict[int, Any] = {}
        self._sizes: dict[int, int] = {}
        self._heights: dict[int, int] = {}
        self.problems: list[Finding] = []

    def value(self, node: Node, depth: int = 0) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        known = id(node) in self._made
        if depth + self._height(node) > MAX_DEPTH:
            through = ", counting through aliases" if known else ""
            problem = Problem(
                "nested-too-deep", f"values nest over {MAX_DEPTH} deep here{through}",
                f"they nest up to {MAX_DEPTH} deep; no kind needs a fifth of that",
            )  # fmt: skip
            raise ManifestError([Finding(self._file, position_of(node), problem)])
        if known:
            return self._made[id(node)]
        if isinstance(node, yaml.SequenceNode):
            items: list[Any] = []
            self._made[id(node)] = items
            self._sizes[id(node)] = MAX_EXPANDED_NODES + 1  # until it is known; a node inside itself has no end
            items.extend(self.value(item, depth + 1) for item in node.value)
            self._sizes[id(node)] = 1 + sum(map(self.expanded, node.value))
            self._heights[id(node)] = 1 + max(map(self._height, node.value), default=0)
            return items
        return self._mapping(node, depth)

    def _mapping(self, node: Node, depth: int) -> dict[str, Any]:
        own: dict[str, Any] = {}
        self._made[id(node)] = own
        self._sizes[id(node)] = MAX_EXPANDED_NODES + 1
        merged: dict[str, Any] = {}
        size = 1
        for name, value_node in node.value:
            value = self.value(value_node, depth + 1)
            size += 1 + self.expanded(value_node)
            if _is_merge(name):
                for part in value if isinstance(value, list) else [value]:
                    merged = {**part, **merged} if isinstance(part, dict) else merged
                continue
            if not isinstance(name, yaml.ScalarNode):
                problem = Problem("key-not-text", "a mapping's key is not text", "keys are text")
                self.problems.append(Finding(self._file, position_of(name), problem))
                continue
            if name.value in own:
                problem = Problem(
                    "duplicate-key", f"the key {echo(name.value)} stands twice in one mapping",
                    "each key once; the API server refuses it, other tools take the last", "remove one",
                )  # fmt: skip
                self.problems.append(Finding(self._file, position_of(name), problem))
            own[name.value] = value
        for key, value in merged.items():
            own.setdefault(key, value)
        self._sizes[id(node)] = size
        self._heights[id(node)] = 1 + max((self._height(below) for _, below in node.value), default=0)
        return own

    def _height(self, node: Node) -> int:
        return self._heights.get(id(node), 0)

    def expanded(self, node: Node) -> int:
        """Return how many values the node stands for once aliases are written out."""
        return min(self._sizes.get(id(node), 1), MAX_EXPANDED_NODES + 1)


def _scalar(node: yaml.nodes.ScalarNode) -> str | int | float | bool | None:
    text: str = node.value
    if node.style or node.tag == "tag:yaml.org,2002:str":
        return text
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    digits = text.replace("_", "")
    if len(text) <= _MAX_NUMBER and _INTEGER.fullmatch(text):
        sign, body = (-1, digits[1:]) if digits[0] == "-" else (1, digits.lstrip("+"))
        octal = len(body) > 1 and body[0] == "0" and body.isdigit()
        return sign * (int(body, 8) if octal and not set(body) & set("89") else int(body, 0 if not octal else 10))
    if len(text) <= _MAX_NUMBER and _FLOAT.fullmatch(text):
        return float(digits.replace(".inf", "inf").replace(".Inf", "inf").replace(".INF", "inf").replace(".nan", "nan")
                     .replace(".NaN", "nan").replace(".NAN", "nan"))  # fmt: skip
    return text


def walk(data: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Yield every value of plain data with its path, outermost first."""
    yield path, data
    entries: Sequence[tuple[Key, Any]] = ()
    if isinstance(data, dict):
        entries = list(data.items())
    elif isinstance(data, list):
        entries = list(enumerate(data))
    for key, value in entries:
        yield from walk(value, (*path, key))
