"""Kubeflow Pipelines: policies on components and tasks, and what they become in the compiled spec.

Importing this package loads no kfp: `leaks` is read by the checker, which works on files alone.
"""
# ruff: noqa: PLC0415 - kfp takes seconds to import, so each function does it when it is called

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pillion.authoring.tags import Directive, Tags


def apply(target: Any, directive: Directive) -> Any:
    """Apply a directive to a kfp object. See `targets.apply`."""
    from pillion.authoring.kfp import targets

    return targets.apply(target, directive)


def apply_defaults(target: Any, tags: Tags) -> Any:
    """Refuse `@defaults(...)` above a decorator of kfp's. See `targets.refuse_defaults`."""
    from pillion.authoring.kfp import targets

    return targets.refuse_defaults(target, tags)


def watch_functions() -> None:
    """Let components that are made from a tagged function be tagged. See `functions.watch`."""
    from pillion.authoring.kfp import functions, pipelines

    pipelines.watch()
    functions.watch()


def watch_defaults() -> None:
    """Let every task that is made get the surrounding defaults. See `targets.watch_tasks`."""
    from pillion.authoring.kfp import targets

    targets.watch_tasks()


def pipelines_in(namespace: Mapping[str, object]) -> dict[str, Any]:
    """Return what a module defines that can be compiled. See `compiling.pipelines_in`."""
    from pillion.authoring.kfp import compiling

    return compiling.pipelines_in(namespace)


def compile_pipeline(component: Any) -> str:
    """Compile a pipeline or a component to YAML. See `compiling.compile_pipeline`."""
    from pillion.authoring.kfp import compiling

    return compiling.compile_pipeline(component)
