"""`pillion compile --from nvidia`: requests for time-sliced GPUs, which say nothing of how much."""

import json

import pytest
import yaml

from pillion.authoring.findings import ManifestError
from pillion.authoring.manifests.compile import compile_text
from pillion.authoring.manifests.settings import parse_setting


def deployment(*containers):
    spec = {"template": {"metadata": {}, "spec": {"containers": list(containers)}}}
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})


def container(amount, name="c"):
    return {"name": name, "resources": {"limits": {"nvidia.com/gpu.shared": amount}}}


def compiled(text, *settings):
    return compile_text(text, "file", [parse_setting(setting) for setting in settings], "nvidia")


def test_the_share_has_to_be_said():
    with pytest.raises(ManifestError) as refused:
        compiled(deployment(container(1)))
    assert [finding.problem.code for finding in refused.value.findings] == ["missing-share"]


def test_with_a_share_the_request_goes():
    result = compiled(deployment(container(1)), "d: share=0.25")
    assert json.loads(result.text)["spec"]["template"] == {
        "metadata": {
            "annotations": {"pillion.dev/priority": "normal", "pillion.dev/share": "0.25"},
            "labels": {"pillion.dev/managed": "true"},
        },
        "spec": {"containers": [{"name": "c"}], "priorityClassName": "pillion-normal"},
    }
    assert [finding.problem.code for finding in result.findings] == ["inexact-translation"]


def test_several_shared_gpus_never_meant_more_than_one():
    result = compiled(deployment(container(3)), "d: share=0.25")
    assert [finding.problem.what for finding in result.findings] == [
        "nvidia.com/gpu.shared is 3",
        "nvidia.com/gpu.shared says no amount of time or memory",
    ]


@pytest.mark.parametrize("amount", [0, "many", "0.5", -1])
def test_what_is_no_count_is_refused(amount):
    with pytest.raises(ManifestError, match="cannot-translate"):
        compiled(deployment(container(amount)), "d: share=0.25")


def test_two_containers_are_refused():
    with pytest.raises(ManifestError, match="the containers a, b each ask for a shared GPU"):
        compiled(deployment(container(1, "a"), container(1, "b")), "d: share=0.25,container=a")


def test_an_accelerator_of_kfp_goes_too():
    executor = {"container": {"image": "x", "resources": {"cpuLimit": 1.0, "accelerator": {
        "resourceType": "nvidia.com/gpu.shared", "resourceCount": "1"}}}}  # fmt: skip
    pipeline = {
        "components": {"comp-a": {"executorLabel": "exec-a"}},
        "deploymentSpec": {"executors": {"exec-a": executor}},
        "pipelineInfo": {"name": "p"},
        "root": {"dag": {"tasks": {"a": {"componentRef": {"name": "comp-a"}}}}},
    }
    written, _ = yaml.safe_load_all(compiled(yaml.safe_dump(pipeline), "a: share=0.25").text)
    assert written["deploymentSpec"]["executors"]["exec-a"]["container"]["resources"] == {"cpuLimit": 1.0}


def test_a_whole_gpu_is_left_alone():
    text = deployment({"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}})
    assert compiled(text).text is text
