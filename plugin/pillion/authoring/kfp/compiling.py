"""Finding what a Python file defines, and compiling it with KFP's own compiler."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kfp.compiler import Compiler
from kfp.dsl.base_component import BaseComponent
from kfp.dsl.graph_component import GraphComponent

from pillion.authoring.kfp import pipelines


def pipelines_in(namespace: Mapping[str, object]) -> dict[str, Any]:
    """Return the pipelines of an executed module by variable name; its components if it has no pipeline.

    Args:
        namespace: The module's variables. An object under several names is returned under the first.
    """
    found: dict[str, Any] = {}
    for kind in (GraphComponent, BaseComponent):
        for name, value in namespace.items():
            if isinstance(value, kind) and not any(value is other for other in found.values()):
                found[name] = value
        if found:
            break
    return found


def compile_pipeline(component: Any) -> str:
    """Compile a pipeline, or a component alone, into the text that KFP's compiler writes.

    Raises:
        PolicyError: Some step has not its own policy.
    """
    pipelines.verify(component.pipeline_spec, component.platform_spec)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pipeline.yaml")
        Compiler().compile(component, str(path))
        return path.read_text(encoding="utf-8")
