"""Names inside one workflow: templates, and what refers to them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from pillion.authoring.findings import Finding
from pillion.authoring.manifests.document import Document, Path_
from pillion.authoring.manifests.steps import at
from pillion.check.manifest import Manifest, found
from pillion.policy import Problem, echo, is_parameter

# Comparing every name with every other takes time that grows with the square of the workflow.
_MAX_SUGGESTED = 20
_SPECS: dict[str, Path_] = {
    "Workflow": ("spec",),
    "WorkflowTemplate": ("spec",),
    "ClusterWorkflowTemplate": ("spec",),
    "CronWorkflow": ("spec", "workflowSpec"),
}


def references(manifest: Manifest) -> Iterator[Finding]:
    """Find templates of the same name, and names that no template has."""
    for thing in manifest.objects:
        if thing.known and thing.kind in _SPECS:
            root = (*thing.path, *_SPECS[thing.kind])
            spec = at(thing.document.data, root)
            if isinstance(spec, Mapping):
                yield from _workflow(thing.document, root, spec)


def _workflow(document: Document, root: Path_, spec: Mapping[str, Any]) -> Iterator[Finding]:
    templates = spec.get("templates")
    names: dict[str, int] = {}
    for index, template in enumerate(templates if isinstance(templates, list) else ()):
        name = at(template, ("name",))
        if not isinstance(name, str):
            continue
        if name in names:
            first = document.position((*root, "templates", names[name], "name"))
            problem = Problem(
                "duplicate-template", f"template {echo(name)} is defined again", "each template has a name of its own",
                f"rename one of the two; the first is at line {first.line}",
            )  # fmt: skip
            yield found(document, (*root, "templates", index, "name"), problem)
        names.setdefault(name, index)
    # A workflow that refers to a stored one takes its templates from there.
    if "workflowTemplateRef" in spec:
        return
    unknown = 0
    for path, name in _mentions(spec, root):
        if isinstance(name, str) and name and name not in names and not is_parameter(name):
            unknown += 1
            near = difflib.get_close_matches(name, names, n=1) if unknown <= _MAX_SUGGESTED else []
            problem = Problem(
                "unknown-template", f"{path[-1]} is {echo(name)}", "the workflow has no template of that name",
                f"did you mean {near[0]}?" if near else "define it, or use templateRef",
            )  # fmt: skip
            yield found(document, path, problem)


def _mentions(spec: Mapping[str, Any], root: Path_) -> Iterator[tuple[Path_, Any]]:
    """Yield every place in a workflow's spec that names one of its templates, with the name."""
    for key in ("entrypoint", "onExit"):
        yield (*root, key), spec.get(key)
    yield from _hooks(spec, root)
    templates = spec.get("templates")
    for index, template in enumerate(templates if isinstance(templates, list) else ()):
        yield from _in_template(template, (*root, "templates", index))


def _in_template(template: Any, path: Path_) -> Iterator[tuple[Path_, Any]]:
    for place, task in _tasks(template, path):
        yield (*place, "template"), task.get("template")
        yield (*place, "onExit"), task.get("onExit")
        yield from _hooks(task, place)
        yield from _in_template(task.get("inline"), (*place, "inline"))


def _tasks(template: Any, path: Path_) -> Iterator[tuple[Path_, Mapping[str, Any]]]:
    tasks = at(template, ("dag", "tasks"))
    for index, task in enumerate(tasks if isinstance(tasks, list) else ()):
        if isinstance(task, Mapping):
            yield (*path, "dag", "tasks", index), task
    groups = at(template, ("steps",))
    for outer, group in enumerate(groups if isinstance(groups, list) else ()):
        for inner, step in enumerate(group if isinstance(group, list) else ()):
            if isinstance(step, Mapping):
                yield (*path, "steps", outer, inner), step


def _hooks(owner: Mapping[str, Any], path: Path_) -> Iterator[tuple[Path_, Any]]:
    hooks = owner.get("hooks")
    for name, hook in hooks.items() if isinstance(hooks, Mapping) else ():
        yield (*path, "hooks", name, "template"), at(hook, ("template",))
