"""What a rule is, and the headings that rules stand under."""

from __future__ import annotations

from dataclasses import dataclass

from pillion.authoring.findings import Severity


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        code: Its stable name, in kebab-case.
        family: The heading it stands under.
        summary: What it finds, in one line.
        fix: What to do about it, with an example.
        severity: An error must be mended; a warning says what will probably surprise.
    """

    code: str
    family: str
    summary: str
    fix: str
    severity: Severity = "error"


FAMILIES: dict[str, str] = {
    "document": "The file as YAML or JSON",
    "fields": "Kinds and fields",
    "contract": "Values of annotations and of decorators",
    "placement": "Where annotations and labels stand",
    "containers": "Containers and whole GPUs",
    "preemption": "Priorities, preemption and retries",
    "references": "Names inside a workflow",
    "kfp": "Kubeflow Pipelines",
    "translation": "Words of other systems",
    "decorators": "Decorators in Python",
    "compile": "Writing policies into manifests",
    "programs": "Python files",
}
