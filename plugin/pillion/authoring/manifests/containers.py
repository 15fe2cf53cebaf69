"""A step's containers: which one gets the GPU, and what each asks the device plugins for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from pillion.authoring.manifests.document import Path_
from pillion.authoring.manifests.steps import Step, at, sequence
from pillion.policy import BY_FIELD, Parameter, Problem, Terms, is_whole_gpu

CONTAINER_KEY = BY_FIELD["container"].key
MAIN = "main"
KFP_ACCELERATOR = ("container", "resources", "accelerator")


class Request(NamedTuple):
    """One resource that a container asks for, and where in the step's document it does."""

    resource: str
    amount: Any
    path: Path_


def bodies(step: Step) -> Iterator[tuple[str, Path_]]:
    """Yield each container of a step, init containers last, as its name and its path in the step's document."""
    if step.platform == "kubernetes":
        yield from _listed(step, ("spec", "containers"))
        yield from _listed(step, ("spec", "initContainers"))
    elif step.platform == "kfp":
        if isinstance(step.raw.get("container"), dict):
            yield MAIN, (*step.path, "container")
    else:
        for kind in ("container", "script"):
            if isinstance(step.raw.get(kind), dict):
                yield MAIN, (*step.path, kind)
        for path in (("containerSet", "containers"), ("sidecars",), ("initContainers",)):
            yield from _listed(step, path)


def _listed(step: Step, path: Path_) -> Iterator[tuple[str, Path_]]:
    for index, item in enumerate(sequence(at(step.raw, path))):
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            yield item["name"], (*step.path, *path, index)


def requests(step: Step, container: Path_) -> Iterator[Request]:
    """Yield what the container at a path asks for, limits first; KFP's accelerator counts as one."""
    for kind in ("limits", "requests"):
        asked = at(step.document.data, (*container, "resources", kind))
        for resource, amount in asked.items() if isinstance(asked, Mapping) else ():
            yield Request(resource, amount, (*container, "resources", kind, resource))
    accelerator = at(step.raw, KFP_ACCELERATOR) if step.platform == "kfp" else None
    if isinstance(accelerator, Mapping):
        for kind, count in (("resourceType", "resourceCount"), ("type", "count")):
            if isinstance(accelerator.get(kind), str):
                path = (*step.path, *KFP_ACCELERATOR)
                yield Request(accelerator[kind], accelerator.get(count), path)
                return


def gpu_container(step: Step, terms: Terms) -> tuple[str | None, Problem | None]:
    """Return which container gets the GPU; None where that is not known yet, and a problem where it must be."""
    named = terms.container
    if isinstance(named, Parameter):
        return None, None
    if named is not None:
        if named in step.containers:
            return named, None
        return None, Problem(
            "unknown-container", f'{CONTAINER_KEY} is "{named}"', f"the containers are {', '.join(step.containers)}",
            "name one of them", key=CONTAINER_KEY,
        )  # fmt: skip
    if step.platform != "kubernetes" and MAIN in step.containers:
        return MAIN, None
    own = ("spec", "containers") if step.platform == "kubernetes" else ("containerSet", "containers")
    candidates = [name for name, _ in _listed(step, own)]
    if len(candidates) < 2:
        return next(iter(candidates), None), None
    return None, Problem(
        "which-container", f"nothing says which of {', '.join(candidates)} gets the GPU",
        "a pod with several containers names the one", f'add {CONTAINER_KEY}: "{candidates[0]}"', key=CONTAINER_KEY,
    )  # fmt: skip


def whole_gpu(step: Step, container: str, removed: Collection[Path_] = ()) -> tuple[Path_, Problem] | None:
    """Return where a container asks for a GPU of its own, and why that contradicts a share.

    What stands at or below a path of `removed` does not count.
    """
    asked = [request for name, path in bodies(step) if name == container for request in requests(step, path)]
    for resource, amount, path in asked:
        unknown = "{{" in resource  # KFP knows it when the pipeline runs
        stays = not any(path[: len(gone)] == gone for gone in removed)
        if (is_whole_gpu(resource) or unknown) and str(amount) != "0" and stays:
            return path, Problem(
                "whole-gpu", f'container "{container}" asks for {resource} {amount} and for a share of a GPU',
                "a step shares one GPU or owns whole ones", f"remove {resource}, or the pillion.dev annotations",
            )  # fmt: skip
    return None
