"""A document's text while changes are being written into it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from pillion.authoring.findings import Finding, ManifestError
from pillion.authoring.manifests.changes import Changes, Put, Remove, changed
from pillion.authoring.manifests.document import Collection, Document, Key, Node, position_of
from pillion.authoring.manifests.layout import Entry, indent_unit, line_break
from pillion.policy import Problem


@dataclass(frozen=True)
class Edit:
    """The text from `start` to `end` becomes `text`; offsets count characters of the whole file."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Work:
    """The changes of one collection, by what they do to it.

    Attributes:
        altered: Entries whose value changes, with the change and the value that they have now.
        removed: Entries to be removed.
        added: Names and values of new entries.
    """

    altered: list[tuple[Entry, Changes | Put, Any]]
    removed: list[Entry]
    added: list[tuple[Key, Any]]


class Page:
    """The text of a file, the document that is being changed, and the edits so far."""

    def __init__(self, text: str, document: Document) -> None:
        self.text = text
        self.document = document
        self.line_break = line_break(text)
        self.unit = indent_unit(document.node)
        self.edits: list[Edit] = []
        self._entered: list[Node] = []

    def enter(self, node: Node) -> None:
        """Take note that something is changed inside `node`, which other places may share."""
        self._entered.append(node)

    def shared(self) -> Node | None:
        """Return the outermost node among those entered that other places share through an anchor."""
        uses = _uses(self.document.node)
        return next((node for node in self._entered if uses[id(node)] > 1), None)

    def sort(self, node: Node, entries: list[Entry], changes: Changes, data: Any) -> Work:
        """Sort the changes of one collection, whose value is `data`.

        Raises:
            ManifestError: Something is to be removed that does not stand here but comes from a merge key.
        """
        self.enter(node)
        named = {entry.name: entry for entry in entries}
        found = Work([], [], [])
        for name, change in changes.items():
            entry, value = named.get(name), data.get(name) if isinstance(data, Mapping) else None
            if isinstance(change, Remove):
                if entry is not None:
                    found.removed.append(entry)
                    continue
                if value is None:
                    continue
                raise self.refused(
                    node, "cannot-edit", f"{name} comes from a merge key", "what is removed stands where it is used"
                )
            if entry is None:
                found.added.append((name, changed(value, change)))
            elif not (isinstance(change, Put) and same(change.value, data[name])):
                found.altered.append((entry, change, data[name]))
        return found

    def inside(self, entry: Entry, change: Changes | Put) -> tuple[Collection, Changes] | None:
        """Return the collection in which to make a change, and what; None if the value is written anew as a whole."""
        if entry.is_alias:
            return None
        if isinstance(change, dict) and isinstance(entry.node, Collection) and entry.node.value:
            return entry.node, change
        self.enter(entry.node)
        return None

    def replace(self, start: int, end: int, text: str) -> None:
        """Add an edit."""
        self.edits.append(Edit(start, end, text))

    def write_value(self, entry: Entry, text: str) -> None:
        """Write a value in place of an entry's value, on the line where that is."""
        lead = ""
        if entry.is_empty:
            behind_space = self.text[entry.value_start - 1].isspace()
            lead = ": " if entry.is_bare else "" if behind_space else " "
        self.replace(entry.value_start, entry.value_end, lead + text)

    def insert_lines(self, after: int, lines: list[str]) -> None:
        """Insert whole lines below the line on which the offset `after` lies."""
        newline = self.text.find("\n", after)
        if newline >= 0:
            self.replace(newline + 1, newline + 1, "".join(f"{line}{self.line_break}" for line in lines))
        else:
            end = len(self.text)
            self.replace(end, end, "".join(f"{self.line_break}{line}" for line in lines))

    def refused(self, node: Node, code: str, what: str, allowed: str, fix: str = "") -> ManifestError:
        """Return the error that something cannot be written at `node`."""
        return ManifestError([Finding(self.document.file, position_of(node), Problem(code, what, allowed, fix))])


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same as YAML has it: 1 is neither true nor 1.0, and nan is nan."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right or left != left)  # noqa: PLR0124 - NaN


def _uses(root: Node) -> Counter[int]:
    """Count, for each node by its identity, how many places of the document hold it."""
    counts: Counter[int] = Counter()
    pending: list[Node] = [root]
    while pending:
        node = pending.pop()
        counts[id(node)] += 1
        if counts[id(node)] > 1 or isinstance(node, yaml.ScalarNode):
            continue
        for entry in node.value:
            pending.extend(entry if isinstance(node, yaml.MappingNode) else (entry,))
    return counts
