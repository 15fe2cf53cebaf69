"""Kubeflow Pipelines: policies that KFP attached to another step than their author did."""

from __future__ import annotations

from collections.abc import Iterator

from pillion.authoring.findings import Finding
from pillion.authoring.kfp.leaks import leaks
from pillion.authoring.manifests.document import Path_
from pillion.authoring.manifests.steps import Step, at
from pillion.check.manifest import Manifest, found

# What follows the platform document's root in `Step.metadata_path`: platforms, kubernetes, deploymentSpec, executors,
# the label, podMetadata.
_BELOW_PLATFORM = 6


def policies(manifest: Manifest) -> Iterator[Finding]:
    """Compare each executor's annotations with the policy hash that its container carries."""
    pipelines: dict[tuple[int, Path_], dict[str, Step]] = {}
    for step in manifest.steps:
        if step.platform == "kfp":
            pipelines.setdefault((id(step.document), step.root), {})[step.name] = step
    for executors in pipelines.values():
        yield from _pipeline(executors)


def _pipeline(executors: dict[str, Step]) -> Iterator[Finding]:
    first = next(iter(executors.values()))
    platform = first.metadata_document
    platform_spec = at(platform.data, first.metadata_path[:-_BELOW_PLATFORM]) if platform else None
    for leak in leaks(at(first.document.data, first.root), platform_spec):
        step = executors.get(leak.executor)
        if step is None or not step.makes_pod:
            continue  # `placement` says so
        if step.annotations and step.metadata_document is not None:
            yield found(step.metadata_document, (*step.metadata_path, "annotations"), leak.problem)
        else:
            yield found(step.document, step.path, leak.problem)
