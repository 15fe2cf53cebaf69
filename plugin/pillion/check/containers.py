"""Which container gets the GPU, and whether it asks for a whole one as well."""

from __future__ import annotations

from collections.abc import Iterator

from pillion.authoring.findings import Finding
from pillion.authoring.manifests.containers import CONTAINER_KEY, gpu_container, whole_gpu
from pillion.authoring.manifests.steps import Step
from pillion.check.manifest import Manifest, found
from pillion.policy import examine, is_ours


def containers(manifest: Manifest) -> Iterator[Finding]:
    """Check the container of every step that has a policy."""
    for step in manifest.steps:
        if not step.shared and step.makes_pod and any(map(is_ours, step.effective)):
            yield from _of(step)


def _of(step: Step) -> Iterator[Finding]:
    terms, _ = examine(step.effective, parameters=True)
    if CONTAINER_KEY in step.effective and terms.container is None:
        return  # `contract` refuses the value
    name, problem = gpu_container(step, terms)
    if problem is not None:
        path = (*step.metadata_path, "annotations", CONTAINER_KEY)
        yield found(step.metadata_document or step.document, path, problem.at(step.where))
    both = whole_gpu(step, name) if name is not None else None
    if both is not None:
        path, problem = both
        yield found(step.document, path, problem.at(step.where))
