"""Unknown fields and values of the wrong kind: what the API server drops in silence or refuses without a place."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from pillion.authoring.findings import Finding
from pillion.authoring.manifests.document import Document, Key, Path_
from pillion.authoring.manifests.steps import at, is_kfp_pipeline, is_kfp_platform
from pillion.check.manifest import Manifest, dotted, found
from pillion.check.tables import tables
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
            walk.value(thing.data, tables().kinds[thing.kind], thing.path)
            yield from walk.findings
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


def _pipeline(document: Document, data: Any, path: Path_) -> list[Finding]:
    walk = _Walk(document)
    walk.value(data, tables().kfp["pipeline"], path)
    return walk.findings


def _platform(document: Document, data: Any, path: Path_) -> list[Finding]:
    walk = _Walk(document)
    walk.value(data, tables().kfp["platform"], path)
    executors = at(data, _KFP_KUBERNETES)
    if isinstance(executors, dict):
        walk.value(executors, "{" + tables().kfp["kubernetes"], (*path, *_KFP_KUBERNETES))
    return walk.findings


def _looks_right(text: str) -> bool:
    return text in ("true", "false") or text.removeprefix("-").replace(".", "", 1).isdecimal()


class _Walk:
    """Compares one document's data with the shapes that it should have.

    Attributes:
        findings: What differs.
    """

    def __init__(self, document: Document, *, lenient: bool = False) -> None:
        self.findings: list[Finding] = []
        self._document = document
        self._lenient = lenient
        self._types = tables().types
        self._seen: set[tuple[int, str]] = set()

    def value(self, value: Any, shape: str, path: Path_, key: Key | None = None) -> None:
        """Compare the value at `path` and `key`, given apart because a path is made for the few that need one."""
        if value is None or shape == "*":
            return
        scalar = _SCALARS.get(shape)
        if scalar is not None:
            takes, noun = scalar
            if not takes(value):
                self._wrong(value, noun, _join(path, key))
            return
        # What aliases repeat is one object, and is judged once.
        if (id(value), shape) in self._seen:
            return
        self._seen.add((id(value), shape))
        if shape[0] == "[":
            self._list(value, shape[1:], _join(path, key))
        elif shape[0] == "{":
            self._mapping(value, shape[1:], _join(path, key))
        else:
            self._object(value, shape, _join(path, key))

    def _list(self, value: Any, shape: str, path: Path_) -> None:
        if not isinstance(value, list):
            self._wrong(value, "a list", path)
            return
        for index, item in enumerate(value):
            self.value(item, shape, path, index)

    def _mapping(self, value: Any, shape: str, path: Path_) -> None:
        if not isinstance(value, dict):
            self._wrong(value, "a mapping", path)
            return
        for key, item in value.items():
            # Annotations and labels of Pillion's own are the contract's business.
            if not is_ours(key):
                self.value(item, shape, path, key)

    def _object(self, value: Any, name: str, path: Path_) -> None:
        if not isinstance(value, dict):
            self._wrong(value, "a mapping", path)
            return
        known = self._types[name]
        for key, item in value.items():
            shape = known.get(key)
            if shape is None:
                self._unknown(key, name, value, path)
            else:
                self.value(item, shape, path, key)

    def _unknown(self, key: str, name: str, siblings: dict[str, Any], path: Path_) -> None:
        known = self._types[name]
        vendor, _, noun = name.partition(".")
        whose, consequence = _VENDORS[vendor]
        allowed = f"{whose} {noun.rpartition('.')[2]} knows no such field, and {consequence}"
        if 0 < len(known) <= _MAX_LISTED:
            allowed += f"; its fields are {', '.join(sorted(known))}"
        problem = Problem(
            "unknown-field", f"{dotted(path)} has no field {echo(key)[1:-1]}", allowed,
            self._suggestion(key, known, siblings) or "remove it",
        )  # fmt: skip
        self._report((*path, key), problem)

    def _suggestion(self, key: str, known: Any, siblings: dict[str, Any]) -> str:
        for field, shape in known.items():
            if field in siblings and key in self._types.get(shape, ()):
                return f"did you mean {field}.{key}? It is indented too little"
        folded = {field.lower(): field for field in known}
        near = difflib.get_close_matches(key.lower(), folded, n=1, cutoff=0.7)
        return f"did you mean {folded[near[0]]}?" if near else ""

    def _wrong(self, value: Any, wanted: str, path: Path_) -> None:
        if wanted == "text" and not isinstance(value, dict | list):
            self._unquoted(path)
            return
        given = {dict: "a mapping", list: "a list", bool: "true or false"}.get(type(value), echo(value))
        fix = 'begin each item with "- "' if wanted == "a list" else ""
        if isinstance(value, str) and wanted in ("a whole number", "a number", "true or false"):
            fix = "write it without quotes" if _looks_right(value) else ""
        self._report(path, Problem("wrong-kind", f"{dotted(path)} is {given}", f"it has to be {wanted}", fix))

    def _unquoted(self, path: Path_) -> None:
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
        self._report(path, problem)

    def _report(self, path: Path_, problem: Problem) -> None:
        self.findings.append(found(self._document, path, problem))


def _join(path: Path_, key: Key | None) -> Path_:
    return path if key is None else (*path, key)
