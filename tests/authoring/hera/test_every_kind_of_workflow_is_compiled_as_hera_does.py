"""`workflows_in` and `compile_workflow`, which the command line uses, on every kind of workflow."""

from types import SimpleNamespace

import pytest
import yaml
from hera.workflows import (
    ClusterWorkflowTemplate,
    Container,
    CronWorkflow,
    Step,
    Steps,
    Workflow,
    WorkflowTemplate,
    models,
)

from pillion import gpu_share
from pillion.authoring.hera import compile_workflow, workflows_in

KINDS = [
    (Workflow, {}, lambda spec: spec),
    (WorkflowTemplate, {}, lambda spec: spec),
    (ClusterWorkflowTemplate, {}, lambda spec: spec),
    (CronWorkflow, {"schedules": ["0 1 * * *"]}, lambda spec: {"schedules": ["0 1 * * *"], "workflowSpec": spec}),
]


@pytest.mark.parametrize(("kind", "more", "wrapped"), KINDS)
def test_the_whole_object(kind, more, wrapped, build):
    with kind(name="nightly", entrypoint="all", **more) as nightly:
        train = gpu_share(0.5)(Container(name="train", image="i"))
        with Steps(name="all"):
            train(name="first")
            Step(name="second", template_ref=models.TemplateRef(name="library", template="report"))
    assert build(nightly) == {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": kind.__name__,
        "metadata": {"name": "nightly"},
        "spec": wrapped(
            {
                "entrypoint": "all",
                "templates": [
                    {
                        "name": "train",
                        "container": {"image": "i"},
                        "metadata": {
                            "annotations": {"pillion.dev/priority": "normal", "pillion.dev/share": "0.5"},
                            "labels": {"pillion.dev/managed": "true"},
                        },
                        "priorityClassName": "pillion-normal",
                    },
                    {
                        "name": "all",
                        "steps": [
                            [{"name": "first", "template": "train"}],
                            [{"name": "second", "templateRef": {"name": "library", "template": "report"}}],
                        ],
                    },
                ],
            }
        ),
    }
    assert compile_workflow(nightly) == nightly.to_yaml()
    assert yaml.safe_load(compile_workflow(nightly)) == nightly.to_dict()


def test_workflows_are_found_once_by_their_first_name():
    nightly, library = CronWorkflow(name="nightly"), ClusterWorkflowTemplate(name="library")
    namespace = {
        "nightly": nightly,
        "again": nightly,
        "library": library,
        "train": Container(name="train", image="i"),
        "Workflow": Workflow,
        "form": models.Workflow(metadata=models.ObjectMeta(), spec=models.WorkflowSpec()),
        "other": SimpleNamespace(build=None),
    }
    found = workflows_in(namespace)
    assert list(found) == ["nightly", "library"]
    assert (found["nightly"], found["library"]) == (nightly, library)


def test_equal_workflows_are_still_two():
    assert list(workflows_in({"one": Workflow(name="same"), "two": Workflow(name="same")})) == ["one", "two"]
