"""Unknown fields and values of the wrong kind: what the API server drops in silence or refuses without a place."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from pillion.authoring.findings import Finding
from pillion.authoring.manifests.document import Document, Path_
from pillion.authoring.manifests.steps import at, is_kfp_pipeline, is_kfp_platform
from pillion.check.manifest import Manifest, dotted, found
from pillion.check.tables import Tables, tables
from pillion.policy import Problem, echo, is_ours

_MAX_LISTED = 12  # fields that a message lists when none is near
_VENDORS = {
    "argo": ("Argo's", "it is ignored"),
    "k8s": ("Kubernetes'", "the API server drops or refuses it"),
    "kfp": ("KFP's", "its backend refuses the pipeline"),
}
_KFP_KUBERNETES: Path_ = ("platforms", "kubernetes", "deploymentSpec", "executors")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return _is_number(value) and value % 1 == 0


# Shape to what it takes and how people call it. The notation is that of `tools/generate_schema.py`.
_SCALARS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "s": (_is_text, "text"),
    "b": (_is_boolean, "true or false"),
    "i": (_is_whole, "a whole number"),
    "n": (_is_number, "a number"),
    "q": (lambda value: _is_text(value) or _is_number(value), "a quantity, such as 500m or 8Gi"),
    "x": (lambda value: _is_text(value) or _is_whole(value), "a whole number, or text"),
    "e": (lambda value: _is_text(value) or _is_whole(value), "a name"),
    "l": (lambda value: _is_text(value) or _is_whole(value), "a whole number"),
}


def fields(manifest: Manifest) -> Iterator[Finding]:
    """Check every object and both KFP documents against the tables."""
    for thing in manifest.objects:
        if thing.known:
            walk = _Walk(thing.document, lenient=thing.group == "argoproj.io")
            yield from walk.value(thing.data, tables().kinds[thing.kind], thing.path)
    for document in manifest.documents:
        if is_kfp_pipeline(document.data):
            yield from _pipeline(document, document.data, ())
        elif is_kfp_platform(document.data):
            yield from _platform(document, document.data, ())
    # KFP's two documents packed into one: the steps know where each part is.
    packed = {step.root: step for step in manifest.steps if step.platform == "kfp" and step.root}
    for root, step in packed.items():
        yield from _pipeline(step.document, at(step.document.data, root), root)
        platform_root = step.metadata_path[: -len(_KFP_KUBERNETES) - 2]
        yield from _platform(step.document, at(step.document.data, platform_root), platform_root)


def _pipeline(document: Document, data: Any, path: Path_) -> Iterator[Finding]:
    yield from _Walk(document).value(data, tables().kfp["pipeline"], path)


def _platform(document: Document, data: Any, path: Path_) -> Iterator[Finding]:
    walk = _Walk(document)
    yield from walk.value(data, tables().kfp["platform"], path)
    executors = at(data, _KFP_KUBERNETES)
    if isinstance(executors, dict):
        yield from walk.value(executors, "{" + tables().kfp["kubernetes"], (*path, *_KFP_KUBERNETES))


def _looks_right(text: str) -> bool:
    return text in ("true", "false") or text.removeprefix("-").replace(".", "", 1).isdecimal()


class _Walk:
    """Compares one document's data with the shapes that it should have."""

    def __init__(self, document: Document, *, lenient: bool = False) -> None:
        self._document = document
        self._lenient = lenient
        self._tables: Tables = tables()
        self._seen: set[tuple[int, str]] = set()

    def value(self, value: Any, shape: str, path: Path_) -> Iterator[Finding]:
        if value is None or shape == "*":
            return
        if isinstance(value, dict | list):
            # What aliases repeat is one object, and is judged once.
            if (id(value), shape) in self._seen:
                return
            self._seen.add((id(value), shape))
        if shape in _SCALARS:
            takes, noun = _SCALARS[shape]
            if not takes(value):
                yield self._wrong(value, noun, path)
        elif shape[0] == "[":
            yield from self._list(value, shape[1:], path)
        elif shape[0] == "{":
            yield from self._mapping(value, shape[1:], path)
        else:
            yield from self._object(value, shape, path)

    def _list(self, value: Any, shape: str, path: Path_) -> Iterator[Finding]:
        if not isinstance(value, list):
            yield self._wrong(value, "a list", path)
            return
        for index, item in enumerate(value):
            yield from self.value(item, shape, (*path, index))

    def _mapping(self, value: Any, shape: str, path: Path_) -> Iterator[Finding]:
        if not isinstance(value, dict):
            yield self._wrong(value, "a mapping", path)
            return
        for key, item in value.items():
            # Annotations and labels of Pillion's own are the contract's business.
            if not is_ours(key):
                yield from self.value(item, shape, (*path, key))

    def _object(self, value: Any, name: str, path: Path_) -> Iterator[Finding]:
        if not isinstance(value, dict):
            yield self._wrong(value, "a mapping", path)
            return
        known = self._tables.types[name]
        for key, item in value.items():
            shape = known.get(key)
            if shape is None:
                yield self._unknown(key, name, value, path)
            else:
                yield from self.value(item, shape, (*path, key))

    def _unknown(self, key: str, name: str, siblings: dict[str, Any], path: Path_) -> Finding:
        known = self._tables.types[name]
        vendor, _, noun = name.partition(".")
        whose, consequence = _VENDORS[vendor]
        allowed = f"{whose} {noun.rpartition('.')[2]} knows no such field, and {consequence}"
        if 0 < len(known) <= _MAX_LISTED:
            allowed += f"; its fields are {', '.join(sorted(known))}"
        problem = Problem(
            "unknown-field", f"{dotted(path)} has no field {echo(key)[1:-1]}", allowed,
            self._suggestion(key, known, siblings) or "remove it",
        )  # fmt: skip
        return found(self._document, (*path, key), problem)

    def _suggestion(self, key: str, known: Any, siblings: dict[str, Any]) -> str:
        for field, shape in known.items():
            if field in siblings and key in self._tables.types.get(shape, ()):
                return f"did you mean {field}.{key}? It is indented too little"
        folded = {field.lower(): field for field in known}
        near = difflib.get_close_matches(key.lower(), folded, n=1, cutoff=0.7)
        return f"did you mean {folded[near[0]]}?" if near else ""

    def _wrong(self, value: Any, wanted: str, path: Path_) -> Finding:
        if wanted == "text" and not isinstance(value, dict | list):
            return self._unquoted(path)
        given = {dict: "a mapping", list: "a list", bool: "true or false"}.get(type(value), echo(value))
        fix = 'begin each item with "- "' if wanted == "a list" else ""
        if isinstance(value, str) and wanted in ("a whole number", "a number", "true or false"):
            fix = "write it without quotes" if _looks_right(value) else ""
        return found(
            self._document, path, Problem("wrong-kind", f"{dotted(path)} is {given}", f"it has to be {wanted}", fix)
        )

    def _unquoted(self, path: Path_) -> Finding:
        node = self._document.node_at(path)
        text = node.value if isinstance(node, yaml.ScalarNode) else ""
        what = f"{dotted(path)} is {echo(text)[1:-1]} without quotes, so it is not text"
        if self._lenient:
            problem = Problem(
                "unquoted-text", what, "it has to be text; argo submit adds the quotes, the API server refuses it",
                f'write "{text}"',
            )  # fmt: skip
        else:
            problem = Problem("wrong-kind", what, "it has to be text", f'write "{text}"')
        return found(self._document, path, problem)
