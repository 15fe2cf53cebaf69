"""The workflows that a program defines, as the command line needs them."""

from __future__ import annotations

from collections.abc import Mapping

from hera.workflows import Workflow

from pillion.authoring.hera.building import watch


def workflows_in(namespace: Mapping[str, object]) -> dict[str, Workflow]:
    """Return the workflows, of any kind, among a module's variables, each once, under its first name."""
    found: dict[int, tuple[str, Workflow]] = {}
    for name, value in namespace.items():
        if isinstance(value, Workflow):
            found.setdefault(id(value), (name, value))
    return dict(found.values())


def compile_workflow(workflow: Workflow) -> str:
    """Return the YAML that Hera writes for a workflow, with its policies.

    Raises:
        PolicyError: A policy cannot be meant as it stands.
    """
    watch()
    text: str = workflow.to_yaml()
    return text
