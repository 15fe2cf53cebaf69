"""Whatever kind of object describes a pod, the step in it is found, with the place that its annotations come from."""

import json

import pytest

from pillion.authoring.manifests.document import parse
from pillion.authoring.manifests.steps import at, steps


def found(text):
    return steps(list(parse(text, "file.yaml")))


def places(text):
    return [(step.where, step.platform, step.path, step.metadata_path) for step in found(text)]


TEMPLATE = {"name": "train", "container": {"image": "x"}}


def argo(kind, spec):
    return json.dumps({"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": {"name": "w"}, "spec": spec})


@pytest.mark.parametrize("kind", ["Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate"])
def test_templates_of_workflows(kind):
    path = ("spec", "templates", 0)
    assert places(argo(kind, {"templates": [TEMPLATE]})) == [('template "train"', "argo", path, (*path, "metadata"))]


def test_templates_of_cron_workflows():
    path = ("spec", "workflowSpec", "templates", 0)
    text = argo("CronWorkflow", {"schedules": ["@daily"], "workflowSpec": {"templates": [TEMPLATE]}})
    assert places(text) == [('template "train"', "argo", path, (*path, "metadata"))]


def test_templates_in_place_of_a_reference_also_inside_one_another():
    inner = {"steps": [[{"name": "deep", "inline": {"script": {"image": "x"}}}]]}
    text = argo("Workflow", {"templates": [{"name": "main", "dag": {"tasks": [{"name": "a", "inline": inner}]}}]})
    task = ("spec", "templates", 0, "dag", "tasks", 0, "inline")
    assert [(step.where, step.path, step.makes_pod) for step in found(text)] == [
        ('template "main"', ("spec", "templates", 0), False),
        ('inline template "a" of "main"', task, False),
        ('inline template "deep" of "a"', (*task, "steps", 0, 0, "inline"), True),
    ]


@pytest.mark.parametrize(
    ("work", "makes_pod"),
    [("container", True), ("script", True), ("containerSet", True)]
    + [(work, False) for work in ("dag", "steps", "suspend", "http", "plugin", "resource", "data")],
)
def test_which_templates_run_a_container_of_their_authors(work, makes_pod):
    (step,) = found(argo("Workflow", {"templates": [{"name": "t", work: {}}]}))
    assert step.makes_pod is makes_pod
    assert bool(step.why_no_pod) is not makes_pod


def test_the_containers_of_a_template():
    template = {
        "name": "t",
        "containerSet": {"containers": [{"name": "a"}, {"name": "main"}]},
        "sidecars": [{"name": "proxy"}],
        "initContainers": [{"name": "setup"}],
    }
    (step,) = found(argo("Workflow", {"templates": [template]}))
    assert step.containers == ("a", "main", "proxy", "setup")
    (step,) = found(argo("Workflow", {"templates": [TEMPLATE]}))
    assert step.containers == ("main",)


def test_what_a_workflow_says_for_all_of_its_pods_is_a_place_of_its_own_and_inherited():
    spec = {
        "podMetadata": {"annotations": {"a": "pod", "b": "pod"}, "labels": {"l": "pod"}},
        "templateDefaults": {"metadata": {"annotations": {"b": "defaults", "c": "defaults"}}},
        "templates": [{**TEMPLATE, "metadata": {"annotations": {"c": "own"}}}],
    }
    pod, defaults, step = found(argo("Workflow", spec))
    assert (pod.where, pod.shared, pod.path, pod.metadata_path) == (
        "podMetadata",
        True,
        ("spec",),
        ("spec", "podMetadata"),
    )
    assert (defaults.where, defaults.shared) == ("templateDefaults", True)
    assert defaults.metadata_path == ("spec", "templateDefaults", "metadata")
    assert not step.shared
    assert step.effective == {"a": "pod", "b": "defaults", "c": "own"}
    assert step.effective_labels == {"l": "pod"}


@pytest.mark.parametrize(
    ("api_version", "kind", "path"),
    [
        ("v1", "Pod", ()),
        ("v1", "PodTemplate", ("template",)),
        ("apps/v1", "Deployment", ("spec", "template")),
        ("apps/v1", "StatefulSet", ("spec", "template")),
        ("apps/v1", "DaemonSet", ("spec", "template")),
        ("apps/v1", "ReplicaSet", ("spec", "template")),
        ("batch/v1", "Job", ("spec", "template")),
        ("batch/v1", "CronJob", ("spec", "jobTemplate", "spec", "template")),
    ],
)
def test_pods_and_what_makes_them(api_version, kind, path):
    thing = {"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "b"}]}}
    for key in reversed(path):
        thing = {key: thing}
    text = json.dumps({**thing, "apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}})
    (step,) = found(text)
    assert (step.where, step.platform, step.path) == (f'{kind} "x"', "kubernetes", path)
    assert step.metadata_path == (*path, "metadata")
    assert step.containers == ("a", "b")


@pytest.mark.parametrize("api_version", ["batch.volcano.sh/v1alpha1", "serving.knative.dev/v1", "v1"])
def test_kinds_of_the_same_name_in_other_groups_are_passed_over(api_version):
    assert found(json.dumps({"apiVersion": api_version, "kind": "Job", "spec": {"template": {"spec": {}}}})) == []


def test_lists_and_lists_of_one_kind_and_lists_of_lists():
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "q"}, "spec": {"containers": []}}]}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod, pods]})
    assert [(step.where, step.path) for step in found(text)] == [
        ('Pod "p"', ("items", 0)),
        ('Pod "q"', ("items", 1, "items", 0)),
    ]


IR = {
    "pipelineInfo": {"name": "p"},
    "deploymentSpec": {"executors": {"exec-a": {"container": {"image": "x"}}, "exec-b": {"importer": {}}}},
    "root": {"dag": {"tasks": {}}},
}
PLATFORM = {
    "platforms": {
        "kubernetes": {"deploymentSpec": {"executors": {"exec-a": {"podMetadata": {"annotations": {"a": "b"}}}}}}
    }
}
CONFIG = ("platforms", "kubernetes", "deploymentSpec", "executors", "exec-a", "podMetadata")


def test_kfp_executors_have_their_metadata_in_the_platform_document():
    documents = list(parse(json.dumps(IR) + "\n---\n" + json.dumps(PLATFORM), "p.yaml"))
    step, importer = steps(documents)
    assert (step.where, step.path) == ('executor "exec-a"', ("deploymentSpec", "executors", "exec-a"))
    assert step.metadata_document is documents[1]
    assert step.metadata_path == CONFIG
    assert step.annotations == {"a": "b"}
    assert not importer.makes_pod


def test_kfp_executors_of_a_pipeline_without_platform_document():
    step, _ = found(json.dumps(IR))
    assert step.metadata_document is None
    assert step.metadata_path == CONFIG


@pytest.mark.parametrize(
    ("packed", "root", "platform"),
    [
        ({"pipelineSpec": IR, "platformSpec": PLATFORM}, ("pipelineSpec",), ("platformSpec",)),
        ({"pipeline_spec": IR, "platform_spec": PLATFORM}, ("pipeline_spec",), ("platform_spec",)),
        (
            {"apiVersion": "pipelines.kubeflow.org/v2beta1", "kind": "PipelineVersion",
             "spec": {"pipelineSpec": IR, "platformSpec": PLATFORM}},
            ("spec", "pipelineSpec"), ("spec", "platformSpec"),
        ),
    ],
)  # fmt: skip
def test_kfp_pipelines_packed_into_one_document(packed, root, platform):
    (document,) = parse(json.dumps(packed), "p.json")
    step, _ = steps([document])
    assert step.path == (*root, "deploymentSpec", "executors", "exec-a")
    assert step.metadata_document is document
    assert step.metadata_path == (*platform, *CONFIG)
    assert step.annotations == {"a": "b"}


@pytest.mark.parametrize(
    "spec",
    [None, [], "text", {"templates": None}, {"templates": "x"}, {"templates": {"a": 1}}, {"templates": [None, "x", 3]},
     {"templates": [{"name": ["x"], "steps": 3, "dag": "y", "metadata": []}], "podMetadata": 7, "templateDefaults": []}],
)  # fmt: skip
def test_wrong_shapes_are_passed_over_for_the_check_to_name(spec):
    for step in found(argo("Workflow", spec)):
        assert at(step.document.data, step.path) == step.raw
