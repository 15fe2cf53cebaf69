"""The containers of a template's pod: which one gets the GPU, and whether it asks for whole ones."""

from __future__ import annotations

from typing import Any

from hera.workflows import models

from pillion.policy import BY_FIELD, Problem, Terms, is_whole_gpu

_MAIN = "main"


def makes_pod(template: models.Template) -> bool:
    """Whether containers of the author's own run in a pod of the template's own."""
    return any(part is not None for part in (template.container, template.script, template.container_set))


def container_problems(template: models.Template, terms: Terms) -> list[Problem]:
    """Return what is wrong about the container that gets the GPU."""
    containers = _containers(template)
    named = terms.container
    if isinstance(named, str) and named not in containers:
        return [
            Problem(
                "unknown-container",
                f'its gpu_share names the container "{named}"',
                f"its containers are {', '.join(containers)}",
                "name one of them",
                key=BY_FIELD["container"].key,
            )
        ]
    target = named if named is not None else _default(template)
    if target is None:
        return [
            Problem(
                "which-container",
                f"nothing says which of {', '.join(containers)} gets the GPU",
                "a pod with several containers names the one",
                "name it: gpu_share(..., container=)",
                key=BY_FIELD["container"].key,
            )
        ]
    if not isinstance(target, str):
        return []  # known at run time
    return [
        Problem(
            "whole-gpu",
            f'its container "{target}" asks for {resource} {amount} and for a share of a GPU',
            "a step shares one GPU or owns whole ones",
            f"remove {resource} from its resources, or the policy",
        )
        for resource, amount in _whole_gpus(containers[target]).items()
    ]


def owns_whole_gpus(template: models.Template) -> bool:
    """Whether the container that would share a GPU asks for whole ones."""
    target = _default(template)
    return target is not None and bool(_whole_gpus(_containers(template)[target]))


def _containers(template: models.Template) -> dict[str, Any]:
    """Return the containers of the template's pod by name; Argo calls that of a container or script `main`."""
    others = [*(template.sidecars or ()), *(template.init_containers or ())]
    return {**_own(template), **{container.name: container for container in others}}


def _own(template: models.Template) -> dict[str, Any]:
    single = template.container or template.script
    return {_MAIN: single} if single else {node.name: node for node in template.container_set.containers}


def _default(template: models.Template) -> str | None:
    """Return the container that gets the GPU where none is named: `main`, else the only one."""
    containers = _containers(template)
    own = [_MAIN] if _MAIN in containers else list(_own(template))
    return own[0] if len(own) == 1 else None


def _whole_gpus(container: Any) -> dict[str, str]:
    """Return the whole GPUs that a container asks for, as {resource: amount}."""
    resources = getattr(container, "resources", None)
    asked = {} if resources is None else {**(resources.requests or {}), **(resources.limits or {})}
    amounts = {resource: str(quantity.root) for resource, quantity in asked.items()}
    return {resource: amount for resource, amount in amounts.items() if is_whole_gpu(resource) and amount != "0"}
