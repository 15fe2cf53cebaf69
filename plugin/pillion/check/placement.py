"""Places that look right and that no pod gets its annotations or labels from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pillion.authoring.findings import Finding
from pillion.authoring.manifests.document import Document, Path_
from pillion.authoring.manifests.steps import Step, at, is_kfp_platform
from pillion.check.manifest import Manifest, dotted, found
from pillion.policy import MANAGED_LABEL, Problem, echo, is_ours

_HELD = ("annotations", "labels")
_HELPED = ("resource", "data")  # Argo runs its own executor in a pod of their own


def placement(manifest: Manifest) -> Iterator[Finding]:
    """Find policies on steps that make no pod, and annotations and labels in places that are ignored."""
    for step in manifest.steps:
        if not step.makes_pod:
            yield from _no_pod(step)
            yield from _helper_pod(step)
    steps_in: dict[int, list[Step]] = {id(thing.document): [] for thing in manifest.objects if thing.known}
    for step in manifest.steps:
        for document in {step.document, step.metadata_document} - {None}:
            steps_in.setdefault(id(document), []).append(step)
    for document in manifest.documents:
        if id(document) in steps_in or is_kfp_platform(document.data):
            yield from _ignored(document, steps_in.get(id(document), []))


def _no_pod(step: Step) -> Iterator[Finding]:
    for held, entries in zip(_HELD, (step.annotations, step.labels), strict=True):
        for key in filter(is_ours, entries):
            problem = Problem(
                "no-pod", f"{echo(key)[1:-1]} reaches no pod", step.why_no_pod, "move it", where=step.where
            )
            yield found(step.metadata_document or step.document, (*step.metadata_path, held, key), problem)
            return


def _helper_pod(step: Step) -> Iterator[Finding]:
    """Find pods that Argo makes for its own work and that get the policy which a workflow gives to all of its pods."""
    kind = next((kind for kind in _HELPED if kind in step.raw), None)
    if kind and MANAGED_LABEL in step.inherited_labels:
        problem = Problem(
            "helper-pod", f"the workflow's policy for all pods also holds for this {kind} template", step.why_no_pod,
            "move the policy to the templates that need a GPU", where=step.where,
        )  # fmt: skip
        yield found(step.document, (*step.path, kind), problem)


def _ignored(document: Document, steps: list[Step]) -> Iterator[Finding]:
    right = {(*step.metadata_path, held) for step in steps for held in _HELD}
    for path, held in _holders(document.data, ()):
        if path in right:
            continue
        entries = at(document.data, path)
        # The same thing said again in the right place does no harm; charts put their labels everywhere.
        stray = [key for key, value in entries.items() if is_ours(key) and not _said_rightly(steps, held, key, value)]
        if stray:
            yield found(document, (*path, stray[0]), _problem(document, path, stray[0]))


def _said_rightly(steps: list[Step], held: str, key: str, value: Any) -> bool:
    pods = [step for step in steps if step.makes_pod and not step.shared and step.platform != "kfp"]
    said = [step.effective if held == "annotations" else step.effective_labels for step in pods]
    return bool(said) and all(entries.get(key) == value for entries in said)


def _holders(data: Any, path: Path_) -> Iterator[tuple[Path_, str]]:
    """Yield where annotations and labels with a key of ours stand."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key in _HELD and isinstance(value, dict) and any(map(is_ours, value)):
                yield (*path, key), key
            elif isinstance(value, dict | list):
                yield from _holders(value, (*path, key))
    elif isinstance(data, list):
        for index, item in enumerate(data):
            if isinstance(item, dict | list):
                yield from _holders(item, (*path, index))


def _problem(document: Document, path: Path_, key: str) -> Problem:
    held = str(path[-1])
    what = f"{echo(key)[1:-1]} stands in {dotted(path)}, and no pod gets it from there"
    parent = at(document.data, path[:-1])
    if is_kfp_platform(document.data) and "executors" in path and path[-2:-1] == ("podMetadata",):
        label = str(path[-3])
        return Problem(
            "unknown-executor", f"executor {echo(label)} is configured here, and the pipeline has none of that name",
            "each executor here has the label of one in the pipeline's deploymentSpec", "compile the pipeline again",
        )  # fmt: skip
    allowed, fix = _right_place(document, path, held, parent)
    return Problem("ignored-place", what, allowed, fix)


# Where the pods of each kind get their annotations from.
_OF_WORKFLOW = "the workflow spec's podMetadata (all pods) or templates[].metadata (one template's)"
_POD_PLACES = {
    "Workflow": _OF_WORKFLOW,
    "WorkflowTemplate": _OF_WORKFLOW,
    "ClusterWorkflowTemplate": _OF_WORKFLOW,
    "CronWorkflow": _OF_WORKFLOW,
    "CronJob": "spec.jobTemplate.spec.template.metadata",
    "Pod": "metadata",
    "PodTemplate": "template.metadata",
}


def _right_place(document: Document, path: Path_, held: str, parent: Any) -> tuple[str, str]:
    if len(path) > 2 and path[-3] == "templates" and isinstance(parent, Mapping):
        return (
            f"Argo shows a template's {held} and puts only its metadata.{held} on the pod",
            f"move it to metadata.{held} of the same template",
        )
    place = _POD_PLACES.get(document.kind, "spec.template.metadata")
    if is_kfp_platform(document.data):
        place = "podMetadata of an executor"
    return f"pods get their {held} from {place}", f"move it to the {held} there"
