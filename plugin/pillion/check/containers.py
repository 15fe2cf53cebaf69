"""Which container gets the GPU, and whether it asks for a whole one as well."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pillion.authoring.findings import Finding
from pillion.authoring.manifests.document import Path_
from pillion.authoring.manifests.steps import Step, at
from pillion.check.manifest import Manifest, found
from pillion.policy import BY_FIELD, Problem, examine, is_ours

_CONTAINER_KEY = BY_FIELD["container"].key
_MAIN = "main"
# Extended resources that stand for a whole GPU or for a fixed slice of one.
_WHOLE_GPU = re.compile(r"(nvidia\.com/(gpu|pgpu|mig-.+)|amd\.com/gpu|gpu\.intel\.com/.+)", re.ASCII)
_KFP_ACCELERATOR = ("container", "resources", "accelerator")


def containers(manifest: Manifest) -> Iterator[Finding]:
    """Check the container of every step that has a policy."""
    for step in manifest.steps:
        if step.shared or not step.makes_pod or not any(map(is_ours, step.effective)):
            continue
        terms, _ = examine(step.effective, parameters=True)
        if isinstance(terms.container, str):
            target, finding = _named(step, terms.container)
        elif _CONTAINER_KEY in step.effective:  # a parameter, or a value that `contract` refuses
            target, finding = None, None
        else:
            target, finding = _default(step)
        if finding is not None:
            yield finding
        if target is not None:
            yield from _whole_gpu(step, target)


def _named(step: Step, named: str) -> tuple[str | None, Finding | None]:
    if named in step.containers:
        return named, None
    problem = Problem(
        "unknown-container", f'{_CONTAINER_KEY} is "{named}"', f"the containers are {', '.join(step.containers)}",
        "name one of them", where=step.where,
    )  # fmt: skip
    path = (*step.metadata_path, "annotations", _CONTAINER_KEY)
    return None, found(step.metadata_document or step.document, path, problem)


def _default(step: Step) -> tuple[str | None, Finding | None]:
    """Apply the contract's default: `main` for Argo and KFP, else the only container."""
    if step.platform == "kubernetes":
        candidates = [name for name, _ in _listed(step, ("spec", "containers"))]
    elif _MAIN in step.containers:
        candidates = [_MAIN]
    else:
        candidates = [name for name, _ in _listed(step, ("containerSet", "containers"))]
    if len(candidates) == 1:
        return candidates[0], None
    if not candidates:
        return None, None
    problem = Problem(
        "which-container", f"nothing says which of {', '.join(candidates)} gets the GPU",
        "a pod with several containers names the one", f'add {_CONTAINER_KEY}: "{candidates[0]}"', where=step.where,
    )  # fmt: skip
    return None, found(step.metadata_document or step.document, (*step.metadata_path, "annotations"), problem)


def _listed(step: Step, path: Path_) -> list[tuple[str, Path_]]:
    items = at(step.raw, path)
    return [
        (item["name"], (*step.path, *path, index))
        for index, item in enumerate(items if isinstance(items, list) else ())
        if isinstance(item, dict) and isinstance(item.get("name"), str)
    ]


def bodies(step: Step) -> Iterator[tuple[str, Path_]]:
    """Yield each container of a step with its path."""
    for kind in ("container", "script"):
        if step.platform == "argo" and isinstance(step.raw.get(kind), dict):
            yield _MAIN, (*step.path, kind)
    for path in (("containerSet", "containers"), ("sidecars",), ("initContainers",)):
        yield from _listed(step, path)
    for path in (("spec", "containers"), ("spec", "initContainers")):
        yield from _listed(step, path)


def resources(step: Step, path: Path_) -> Iterator[tuple[str, Any, Path_]]:
    """Yield the resources that the container at `path` asks for, with their paths."""
    for kind in ("limits", "requests"):
        asked = at(step.document.data, (*path, "resources", kind))
        if isinstance(asked, Mapping):
            for name, amount in asked.items():
                yield name, amount, (*path, "resources", kind, name)


def accelerator(step: Step) -> tuple[str, Any, Path_] | None:
    """Return the accelerator that a KFP executor asks for, with the path of its type."""
    asked = at(step.raw, _KFP_ACCELERATOR)
    if step.platform != "kfp" or not isinstance(asked, Mapping):
        return None
    for name, count in (("resourceType", "resourceCount"), ("type", "count")):
        if isinstance(asked.get(name), str):
            return asked[name], asked.get(count), (*step.path, *_KFP_ACCELERATOR, name)
    return None


def _whole_gpu(step: Step, target: str) -> Iterator[Finding]:
    asked = [entry for name, path in bodies(step) if name == target for entry in resources(step, path)]
    kfp = accelerator(step)
    for name, amount, path in [*asked, *([kfp] if kfp else [])]:
        if _WHOLE_GPU.fullmatch(name) and str(amount) != "0":
            problem = Problem(
                "whole-gpu", f'container "{target}" asks for {name} {amount} and for a share of a GPU',
                "a step shares one GPU or owns whole ones", f"remove {name}, or the pillion.dev annotations",
                where=step.where,
            )  # fmt: skip
            yield found(step.document, path, problem)
            return
