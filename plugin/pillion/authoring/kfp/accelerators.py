"""Whole GPUs that a KFP step asks for, as a task and in the compiled document. Needs no kfp."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pillion.policy import is_whole_gpu


def owns_gpus(task: Any) -> bool:
    """Whether a task asks for GPUs of its own, or for what is known only when the pipeline runs."""
    resources = getattr(task.container_spec, "resources", None)
    if resources is None:
        return False
    kind, count = resources.accelerator_type, resources.accelerator_count
    # A limit without a type says nothing to KFP; who writes it means a GPU.
    return count not in (None, "0") if kind is None else _is_gpu(kind, count)


def executor_owns_gpus(executor: Mapping[str, Any]) -> bool:
    """Whether an executor of a compiled pipeline document does."""
    accelerator = executor.get("container", {}).get("resources", {}).get("accelerator", {})
    kind = accelerator.get("resourceType", accelerator.get("type"))
    return kind is not None and _is_gpu(kind, accelerator.get("resourceCount", accelerator.get("count")))


def _is_gpu(kind: str, count: object) -> bool:
    # NVIDIA_TESLA_K80 and the like are what KFP's own documentation names.
    gpu = is_whole_gpu(kind) or kind.lower().startswith("nvidia") or "{{" in kind
    return gpu and str(count) != "0"
