"""What the rules look at: one file, its documents, the objects in them and their steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pillion.authoring.findings import Finding
from pillion.authoring.manifests.document import Document, Key, Path_
from pillion.authoring.manifests.steps import Step
from pillion.check.catalogue import RULES
from pillion.policy import Problem

# (API group, kind) of everything whose steps Pillion knows, and the version that this release reads.
VERSIONS: dict[tuple[str, str], str] = {
    ("argoproj.io", "Workflow"): "v1alpha1",
    ("argoproj.io", "WorkflowTemplate"): "v1alpha1",
    ("argoproj.io", "ClusterWorkflowTemplate"): "v1alpha1",
    ("argoproj.io", "CronWorkflow"): "v1alpha1",
    ("argoproj.io", "WorkflowEventBinding"): "v1alpha1",
    ("", "Pod"): "v1",
    ("", "PodTemplate"): "v1",
    ("", "ReplicationController"): "v1",
    ("apps", "Deployment"): "v1",
    ("apps", "StatefulSet"): "v1",
    ("apps", "DaemonSet"): "v1",
    ("apps", "ReplicaSet"): "v1",
    ("batch", "Job"): "v1",
    ("batch", "CronJob"): "v1",
}

_BARE_KEY = re.compile(r"[\w-]+", re.ASCII)


@dataclass(frozen=True, eq=False)
class Object:
    """A Kubernetes object: a document, or an item of a list that is one."""

    document: Document
    path: Path_
    data: dict[str, Any]
    api_version: Any
    kind: Any

    @property
    def group(self) -> str:
        """The API group; empty for the core one, and where none is said."""
        return self.api_version.rpartition("/")[0] if isinstance(self.api_version, str) else ""

    @property
    def known(self) -> bool:
        """Whether this is an object whose fields and steps are known."""
        return (
            isinstance(self.kind, str)
            and isinstance(self.api_version, str)
            and VERSIONS.get((self.group, self.kind)) == self.api_version.rpartition("/")[2]
        )


@dataclass(frozen=True, eq=False)
class Manifest:
    """One file, read."""

    file: str
    documents: tuple[Document, ...]
    objects: tuple[Object, ...]
    steps: tuple[Step, ...]


def objects(document: Document) -> Iterator[Object]:
    """Yield the Kubernetes objects of a document; KFP's documents hold none."""
    if "kind" in document.data or "apiVersion" in document.data:
        yield from _objects(document, (), document.data, None, None)


def _objects(document: Document, path: Path_, data: Any, api_version: Any, kind: Any) -> Iterator[Object]:
    if not isinstance(data, dict):
        return
    api_version, kind = data.get("apiVersion", api_version), data.get("kind", kind)
    items = data.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        of_items = (None, None) if kind == "List" else (api_version, kind.removesuffix("List"))
        for index, item in enumerate(items):
            yield from _objects(document, (*path, "items", index), item, *of_items)
        return
    yield Object(document, path, data, api_version, kind)


def found(document: Document, path: Path_, problem: Problem) -> Finding:
    """Return `problem` as a finding at `path`, as severe as the catalogue says."""
    return document.finding(path, problem, warning=RULES[problem.code].severity == "warning")


def dotted(path: Path_) -> str:
    """Write a path as people do: `spec.templates[0].metadata.annotations["pillion.dev/share"]`."""
    text = ""
    for key in path:
        text += _dotted_key(key, first=not text)
    return text or "the document"


def _dotted_key(key: Key, *, first: bool) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    if _BARE_KEY.fullmatch(key):
        return key if first else f".{key}"
    return f'["{key}"]'
