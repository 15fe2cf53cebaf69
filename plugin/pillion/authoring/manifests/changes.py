"""What is to be different in a document, as plain data, independent of how its text is laid out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, Union

from pillion.authoring.manifests.document import Key, Path_


@dataclass(frozen=True)
class Put:
    """The value that stands here afterwards."""

    value: Any


class Remove(Enum):
    """The key is gone afterwards."""

    REMOVE = "remove"


REMOVE: Literal[Remove.REMOVE] = Remove.REMOVE

# Keys of mappings, or indices of lists: the index after the last appends. Mappings on the way that do not exist, or are
# null, come into being.
Changes = dict[Key, Union["Changes", Put, Remove]]


def put(changes: Changes, path: Path_, value: Any) -> None:
    """Add to `changes` that `value` is to stand at `path`."""
    _parent(changes, path)[path[-1]] = Put(value)


def remove(changes: Changes, path: Path_) -> None:
    """Add to `changes` that nothing is to stand at `path`."""
    _parent(changes, path)[path[-1]] = REMOVE


def _parent(changes: Changes, path: Path_) -> Changes:
    for key in path[:-1]:
        below = changes.setdefault(key, {})
        if not isinstance(below, dict):
            raise TypeError(f"{path} lies below {key}, which is changed as a whole")
        changes = below
    return changes


class MisfitError(Exception):
    """A change below something that holds neither keys nor items: `path` holds `value`."""

    def __init__(self, path: Path_, value: Any) -> None:
        self.path = path
        self.value = value
        super().__init__(f"nothing stands below {value!r}")


def changed(data: Any, changes: Changes | Put | Remove, path: Path_ = ()) -> Any:
    """Return `data` with `changes` made; `data` itself stays as it is, and so does whatever shares parts with it.

    Raises:
        MisfitError: `changes` reach below text or a number; its path begins with `path`.
    """
    if isinstance(changes, Put):
        return changes.value
    if isinstance(changes, Remove):
        return None
    if data is None:
        data = [] if changes and all(isinstance(key, int) for key in changes) else {}
    if not isinstance(data, dict | list):
        raise MisfitError(path, data)
    made = dict(enumerate(data)) if isinstance(data, list) else dict(data)
    for key, change in changes.items():
        if isinstance(change, Remove):
            made.pop(key, None)
        else:
            made[key] = changed(made.get(key), change, (*path, key))
    return list(made.values()) if isinstance(data, list) else made
