"""YAML's nodes as plain data, as the Go parsers behind kubectl and Argo read them."""

from __future__ import annotations

import re
from typing import Any

import yaml

from pillion.policy import Problem, echo

# A value reached through aliases counts each time it is reached. A YAML bomb passes this at once, no manifest does.
MAX_EXPANDED_NODES = 2_000_000
# Far above what any kind needs, and far below what a recursive reader can follow.
MAX_DEPTH = 100

# What a plain scalar means: a number, a boolean or null where it looks like one under YAML 1.1 or 1.2, else text.
_INTEGER = re.compile(r"[-+]?(0b[01]+|0o[0-7]+|0x[0-9a-fA-F]+|[0-9][0-9_]*)", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_MAX_NUMBER = 400  # characters; longer digit strings are nobody's number, and Python refuses to convert them
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_NOT_ALWAYS_TEXT = frozenset("+-.0123456789~nNtTfF")  # with one of these begins all that is not text


class RefusedError(Exception):
    """A document that cannot be worked on: `node` is where, `problem` is why."""

    def __init__(self, node: yaml.nodes.Node, problem: Problem) -> None:
        self.node = node
        self.problem = problem
        super().__init__(str(problem))


def data_of(root: yaml.nodes.Node) -> tuple[Any, list[tuple[yaml.nodes.Node, Problem]]]:
    """Return a tree of nodes as plain data, and what is wrong with it; aliases become shared objects.

    Raises:
        RefusedError: It nests too deep, or its aliases multiply its size.
    """
    converter = _Converter()
    data = converter.value(root)
    if converter.has_aliases:
        _measure(root)
    return data, converter.problems


class _Converter:
    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        self.has_aliases = False
        self.problems: list[tuple[yaml.nodes.Node, Problem]] = []

    def value(self, node: yaml.nodes.Node, depth: int = 0) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return scalar(node)
        made = self._made.get(id(node))
        if made is not None:
            self.has_aliases = True
            return made
        if depth > MAX_DEPTH:
            raise RefusedError(node, _too_deep())
        if isinstance(node, yaml.SequenceNode):
            items: list[Any] = []
            self._made[id(node)] = items
            items.extend([self.value(item, depth + 1) for item in node.value])
            return items
        return self._mapping(node, depth)

    def _mapping(self, node: yaml.nodes.Node, depth: int) -> dict[str, Any]:
        own: dict[str, Any] = {}
        self._made[id(node)] = own
        merged: dict[str, Any] = {}
        for name, value_node in node.value:
            value = self.value(value_node, depth + 1)
            if not isinstance(name, yaml.ScalarNode):
                self.problems.append((name, Problem("key-not-text", "a mapping's key is not text", "keys are text")))
            elif is_merge(name):
                for part in value if isinstance(value, list) else [value]:
                    merged = {**part, **merged} if isinstance(part, dict) else merged
            else:
                if name.value in own:
                    self.problems.append((name, _twice(name.value)))
                own[name.value] = value
        for key, value in merged.items():
            own.setdefault(key, value)
        return own


def _measure(root: yaml.nodes.Node) -> None:
    """Refuse a document that is too large or too deep once its aliases are written out."""
    known: dict[int, tuple[int, int]] = {}

    def extent(node: yaml.nodes.Node) -> tuple[int, int]:
        if isinstance(node, yaml.ScalarNode):
            return 1, 0
        if id(node) not in known:
            known[id(node)] = (MAX_EXPANDED_NODES + 1, 0)  # until it is known; a node inside itself has no end
            pairs = isinstance(node, yaml.MappingNode)
            below = [extent(entry[1] if pairs else entry) for entry in node.value]
            size = min(1 + sum(each for each, _ in below), MAX_EXPANDED_NODES + 1)
            known[id(node)] = (size, 1 + max((height for _, height in below), default=0))
        return known[id(node)]

    size, height = extent(root)
    if size > MAX_EXPANDED_NODES:
        problem = Problem(
            "yaml-bomb", f"aliases expand this document to over {MAX_EXPANDED_NODES} values",
            "aliases may repeat a value, not multiply it", "write the values out",
        )  # fmt: skip
        raise RefusedError(root, problem)
    if height > MAX_DEPTH:
        raise RefusedError(root, _too_deep(", counting through aliases"))


def _too_deep(how: str = "") -> Problem:
    return Problem(
        "nested-too-deep", f"values nest over {MAX_DEPTH} deep here{how}",
        f"they nest up to {MAX_DEPTH} deep; no kind needs a fifth of that",
    )  # fmt: skip


def _twice(key: str) -> Problem:
    return Problem(
        "duplicate-key", f"the key {echo(key)} stands twice in one mapping",
        "each key once; the API server refuses it, other tools take the last", "remove one",
    )  # fmt: skip


def is_merge(name: yaml.nodes.Node) -> bool:
    """Whether a key is `<<`, which lays other mappings under this one."""
    return isinstance(name, yaml.ScalarNode) and name.value == "<<" and not name.style


def is_null(node: yaml.nodes.Node) -> bool:
    """Whether nothing is written where a value could be, or null is."""
    return isinstance(node, yaml.ScalarNode) and not node.style and node.value in _NULL


def scalar(node: yaml.nodes.ScalarNode) -> str | int | float | bool | None:
    """Return the value of a scalar."""
    text: str = node.value
    if node.style or (text and text[0] not in _NOT_ALWAYS_TEXT) or node.tag == "tag:yaml.org,2002:str":
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
