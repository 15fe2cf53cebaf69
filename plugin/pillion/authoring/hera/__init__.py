"""Hera: a directive is recorded on the author's object, and written when Hera turns its workflow into Argo's form.

Importing this imports Hera; `pillion.authoring.decorators` does so only for objects that are Hera's.
"""

from pillion.authoring.hera.building import watch as watch_defaults
from pillion.authoring.hera.building import watch as watch_functions
from pillion.authoring.hera.parameters import parameter_text
from pillion.authoring.hera.targets import apply, apply_defaults
from pillion.authoring.hera.workflows import compile_workflow, workflows_in

__all__ = [
    "apply",
    "apply_defaults",
    "compile_workflow",
    "parameter_text",
    "watch_defaults",
    "watch_functions",
    "workflows_in",
]
