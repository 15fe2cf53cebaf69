"""YAML and JSON files as plain data in which every value still knows its place in the text.

The text itself is never written back from the data: whoever changes a manifest splices into the text at the offsets
that are kept here, so that everything untouched keeps its bytes. libyaml's parser is used for its speed and its marks.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml._yaml import CParser

from pillion.authoring.findings import Finding, ManifestError, Position
from pillion.authoring.manifests.values import RefusedError, data_of, is_merge, is_null
from pillion.policy import Problem, echo

MAX_FILE_BYTES = 50 << 20
Key = str | int
Path_ = tuple[Key, ...]
Node = yaml.nodes.Node
Collection = yaml.nodes.CollectionNode


# The C parser builds the node tree and calls these by position; tags are resolved in `values`.
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
            if is_merge(name):
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
            if node is not None and not is_null(node):
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
    try:
        data, problems = data_of(node)
    except RefusedError as refused:
        raise ManifestError([Finding(file, position_of(refused.node), refused.problem)]) from None
    findings = tuple(Finding(file, position_of(place), problem) for place, problem in problems)
    return Document(file, node, data, start, node.end_mark.index, findings)


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
