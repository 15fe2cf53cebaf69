"""However wrong the shapes in a file are, compiling it works or names a place; it never fails in any other way."""

import json

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pillion.authoring.findings import ManifestError
from pillion.authoring.manifests.compile import compile_text
from pillion.authoring.manifests.settings import parse_setting

SHARE = {"pillion.dev/share": "0.5"}
METADATA = {"name": "x", "annotations": {**SHARE, "gpu-fraction": "0.5"}, "labels": {"a": "b"}}
CONTAINER = {
    "name": "main",
    "image": "x",
    "env": [{"name": "A", "value": "b"}],
    "resources": {
        "limits": {"nvidia.com/gpumem": 1000, "nvidia.com/gpu.shared": 1},
        "accelerator": {"resourceType": "nvidia.com/gpu.shared", "resourceCount": "1"},
    },
}
TEMPLATE = {
    "name": "t",
    "metadata": METADATA,
    "container": CONTAINER,
    "retryStrategy": {"limit": 2},
    "schedulerName": "kai-scheduler",
}
PODS = {"metadata": METADATA, "spec": {"containers": [CONTAINER], "priorityClassName": "x"}}
OBJECTS = [
    {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "spec": {
            "podMetadata": METADATA,
            "templateDefaults": TEMPLATE,
            "retryStrategy": {"limit": 1},
            "templates": [
                TEMPLATE,
                {"name": "d", "dag": {"tasks": [{"name": "i", "inline": TEMPLATE}]}},
                {"name": "s", "steps": [[{"name": "j", "inline": TEMPLATE}]], "metadata": METADATA},
                {"name": "c", "containerSet": {"containers": [CONTAINER]}, "sidecars": [CONTAINER]},
            ],
        },
    },
    {"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod", **PODS}]},
    {"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": PODS}}}},
    {
        "components": {
            "comp-a": {"executorLabel": "exec-a", "taskConfigPassthroughs": [{"field": "ENV", "applyToTask": True}]},
            "comp-b": {"dag": {"tasks": {"a": {"componentRef": {"name": "comp-a"}}}}},
        },
        "deploymentSpec": {"executors": {"exec-a": {"container": CONTAINER}, "exec-i": {"importer": {}}}},
        "pipelineInfo": {"name": "p"},
        "root": {"dag": {"tasks": {"a": {"componentRef": {"name": "comp-a"}, "retryPolicy": {"maxRetryCount": 1}}}}},
    },
    {"platforms": {"kubernetes": {"deploymentSpec": {"executors": {"exec-a": {"podMetadata": METADATA}}}}}},
]
WRONG = st.sampled_from(
    [None, 0, 1, -1.5, True, "", "text", [], {}, [None], [[]], {"a": None}, {"name": 3}, [{"name": []}]]
)


@st.composite
def spoilt(draw, value):
    """Return a value in which something may be of another kind than it should be."""
    if draw(st.integers(0, 14)) == 0:
        return draw(WRONG)
    if isinstance(value, dict):
        return {key: draw(spoilt(below)) for key, below in value.items() if draw(st.integers(0, 20))}
    if isinstance(value, list):
        return [draw(spoilt(below)) for below in value]
    return value


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.sampled_from(OBJECTS).flatmap(spoilt), min_size=1, max_size=3),
    st.sampled_from(
        [(), (".*: share=0.5,on-preempt=evict",), ("t: memory=1Gi,priority=low,retries=2,container=main",)]
    ),
    st.sampled_from([None, "kai", "hami", "nvidia"]),
    st.booleans(),
)
def test_spoilt_objects(objects, said, translate, as_json):
    text = json.dumps(objects[0]) if as_json else yaml.safe_dump_all(objects, sort_keys=False)
    try:
        compile_text(text, "file.yaml", [parse_setting(each) for each in said], translate)
    except ManifestError as error:
        assert all(finding.problem.what and finding.problem.code for finding in error.findings)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab:-{}[],\"' #&*!|>\n\t%@?0\ufeff\u2028\x00é", max_size=60))
def test_any_text(text):
    try:
        assert compile_text(text, "file.yaml").text is text
    except ManifestError as error:
        assert error.findings[0].position is not None
