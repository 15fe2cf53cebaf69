"""Argo's own examples, read by Hera: unchanged where nothing is said, and changed only where a policy is written."""

import copy
import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import yaml
from hera.workflows import ClusterWorkflowTemplate, CronWorkflow, Workflow, WorkflowTemplate

from pillion import PolicyError, defaults
from pillion.policy import PolicyWarning

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "argo-examples"
if not CORPUS.exists():
    pytest.skip(f"the public corpus is not at {CORPUS}", allow_module_level=True)

KINDS = {kind.__name__: kind for kind in (Workflow, WorkflowTemplate, CronWorkflow, ClusterWorkflowTemplate)}
ANNOTATIONS = {"pillion.dev/memory": "4Gi", "pillion.dev/on-preempt": "evict", "pillion.dev/priority": "low"}
ALONE = """
import json, sys, hera.workflows
objects = json.load(sys.stdin)
json.dump([getattr(hera.workflows, each["kind"]).from_dict(each).to_dict() for each in objects], sys.stdout)
"""


@pytest.fixture(scope="module")
def objects():
    """Return every workflow of the corpus as plain data."""
    documents = (
        document for path in sorted(CORPUS.rglob("*.yaml")) for document in yaml.safe_load_all(path.read_text())
    )
    # Through JSON, as Hera takes no dates: they stand unquoted in one example.
    found = [json.loads(json.dumps(document, default=str)) for document in documents if document]
    return [document for document in found if document.get("kind") in KINDS]


def read(data):
    return KINDS[data["kind"]].from_dict(copy.deepcopy(data))


def test_nothing_changes_where_nothing_is_said(objects):
    defaults(priority="low")(Workflow())  # Hera is extended from here on
    run = subprocess.run(
        [sys.executable, "-c", ALONE], input=json.dumps(objects), capture_output=True, text=True, check=True
    )
    assert [read(data).to_dict() for data in objects] == json.loads(run.stdout)
    print(f"{len(objects)} workflows of Argo's examples stay as they are")
    assert objects


def templates_in(templates):
    """Yield every template, those that stand inline in tasks and steps included."""
    for template in templates:
        yield template
        steps = [step for group in template.get("steps", ()) for step in group]
        calls = [*template.get("dag", {}).get("tasks", ()), *steps]
        yield from templates_in([call["inline"] for call in calls if "inline" in call])


def test_a_policy_for_all_changes_nothing_else(objects):
    written = refused = 0
    for data in objects:
        expected = read(data).to_dict()
        spec = expected["spec"].get("workflowSpec", expected["spec"])
        ambiguous = False
        for template in templates_in(spec.get("templates", ())):
            if not {"container", "script", "containerSet"} & set(template):
                continue
            names = [container["name"] for container in template.get("containerSet", {}).get("containers", ())]
            ambiguous |= len(names) > 1 and "main" not in names
            metadata = template.setdefault("metadata", {})
            metadata["annotations"] = {**metadata.get("annotations", {}), **ANNOTATIONS}
            metadata["labels"] = {**metadata.get("labels", {}), "pillion.dev/managed": "true"}
            template.setdefault("priorityClassName", "pillion-low")
            template.setdefault("retryStrategy", {"limit": "5", "retryPolicy": "Always"})
            written += 1
        low = defaults(priority="low", memory="4Gi", on_preempt="evict")(read(data))
        if ambiguous or "workflowTemplateRef" in spec:
            with pytest.raises(PolicyError) as caught:
                low.build()
            code = "which-container" if ambiguous else "defaults-out-of-reach"
            assert {problem.code for problem in caught.value.problems} == {code}
            refused += 1
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PolicyWarning)
            assert low.to_dict() == expected, data["metadata"]
    print(f"{written} templates of Argo's examples took a policy; {refused} workflows cannot have one and say why")
    assert written
