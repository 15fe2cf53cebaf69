"""KFP's compiled pipelines: the platform document, the policy's hash, retries, and what is refused."""

import copy
import json

import pytest
import yaml

from pillion.authoring.findings import ManifestError
from pillion.authoring.manifests.compile import compile_text
from pillion.authoring.manifests.settings import parse_setting
from pillion.authoring.manifests.steps import at

IR = {
    "components": {
        "comp-train": {"executorLabel": "exec-train"},
        "comp-train-2": {"executorLabel": "exec-train"},
        "comp-import": {"executorLabel": "exec-import"},
        "comp-loop": {"dag": {"tasks": {"again": {"componentRef": {"name": "comp-train-2"}}}}},
    },
    "deploymentSpec": {
        "executors": {"exec-train": {"container": {"image": "x"}}, "exec-import": {"importer": {"reimport": False}}}
    },
    "pipelineInfo": {"name": "p"},
    "root": {
        "dag": {
            "tasks": {
                "train": {"componentRef": {"name": "comp-train"}},
                "loop": {"componentRef": {"name": "comp-loop"}},
            }
        }
    },
    "schemaVersion": "2.1.0",
}
RETRY = {"backoffDuration": "0s", "backoffFactor": 2.0, "backoffMaxDuration": "604800s", "maxRetryCount": 5}
POLICY = "train: share=0.5,on-preempt=evict"
METADATA = {
    "annotations": {
        "pillion.dev/on-preempt": "evict",
        "pillion.dev/priority": "normal",
        "pillion.dev/share": "0.5",
    },
    "labels": {"pillion.dev/managed": "true"},
}


def dumped(*documents):
    return yaml.safe_dump_all(documents, sort_keys=True)


def compiled(text, *settings):
    return compile_text(text, "p.yaml", [parse_setting(setting) for setting in settings])


def refusals(text, *settings):
    with pytest.raises(ManifestError) as refused:
        compiled(text, *settings)
    return [(finding.problem.code, finding.position and finding.position.line) for finding in refused.value.findings]


def changed(path, value):
    """Return the pipeline with one value changed."""
    pipeline = copy.deepcopy(IR)
    place = pipeline
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return pipeline


TRAIN = ("deploymentSpec", "executors", "exec-train", "container")
TASK = ("root", "dag", "tasks", "train")


def test_all_that_a_policy_needs_is_written():
    text = "# PIPELINE DEFINITION\n" + dumped(IR)
    result = compiled(text, POLICY)
    pipeline, platform = yaml.safe_load_all(result.text)
    expected = copy.deepcopy(IR)
    (variable,) = pipeline["deploymentSpec"]["executors"]["exec-train"]["container"]["env"]
    assert variable["name"] == "PILLION_POLICY_HASH"
    expected["deploymentSpec"]["executors"]["exec-train"]["container"]["env"] = [variable]
    expected["root"]["dag"]["tasks"]["train"]["retryPolicy"] = RETRY
    expected["components"]["comp-loop"]["dag"]["tasks"]["again"]["retryPolicy"] = RETRY
    assert pipeline == expected
    assert platform == {
        "platforms": {"kubernetes": {"deploymentSpec": {"executors": {"exec-train": {"podMetadata": METADATA}}}}}
    }
    assert result.text.startswith("# PIPELINE DEFINITION\n")
    assert compiled(result.text).text is result.text


@pytest.mark.parametrize("platforms", [{}, {"kubernetes": {}}, {"kubernetes": {"pipelineConfig": {"workspace": {}}}}])
def test_a_platform_document_that_is_there_is_added_to(platforms):
    result = compiled(dumped(IR, {"platforms": platforms}), POLICY)
    _, platform = yaml.safe_load_all(result.text)
    executors = {"executors": {"exec-train": {"podMetadata": METADATA}}}
    assert platform == {"platforms": {"kubernetes": {**platforms.get("kubernetes", {}), "deploymentSpec": executors}}}


def test_a_pipeline_packed_with_its_platform_is_one_document():
    packed = {
        "apiVersion": "pipelines.kubeflow.org/v2beta1",
        "kind": "PipelineVersion",
        "metadata": {"name": "p-1"},
        "spec": {"pipelineName": "p", "pipelineSpec": IR},
    }
    (document,) = yaml.safe_load_all(compiled(dumped(packed), POLICY).text)
    platforms = document["spec"]["platformSpec"]["platforms"]
    assert platforms["kubernetes"]["deploymentSpec"]["executors"]["exec-train"]["podMetadata"] == METADATA


def test_environment_and_retries_of_the_author_stay():
    own = {"maxRetryCount": 2, "backoffMaxDuration": "3600s"}
    pipeline = changed((*TASK, "retryPolicy"), own)
    pipeline["deploymentSpec"]["executors"]["exec-train"]["container"]["env"] = [{"name": "A", "value": "b"}]
    result = compiled(dumped(pipeline), POLICY)
    written, _ = yaml.safe_load_all(result.text)
    assert written["root"]["dag"]["tasks"]["train"]["retryPolicy"] == own
    assert [each["name"] for each in written["deploymentSpec"]["executors"]["exec-train"]["container"]["env"]] == [
        "A",
        "PILLION_POLICY_HASH",
    ]
    assert [(finding.severity, finding.problem.code) for finding in result.findings] == [
        ("warning", "short-time-for-retries")
    ]


def test_long_retries_of_the_author_stay_without_a_warning_unless_a_count_was_said():
    own = {"maxRetryCount": 2, "backoffMaxDuration": "1209600s"}
    text = dumped(changed((*TASK, "retryPolicy"), own))
    assert compiled(text, POLICY).findings == ()
    (finding,) = compiled(text, f"{POLICY},retries=3").findings
    assert (finding.severity, finding.problem.code) == ("warning", "own-retries")


def test_json_has_no_room_for_a_platform_document():
    assert refusals(json.dumps(IR), POLICY) == [("kfp-json", 1)]


@pytest.mark.parametrize(
    "accelerator",
    [
        {"resourceType": "nvidia.com/gpu", "resourceCount": "1"},
        {"type": "nvidia.com/gpu", "count": "1"},
        {"resourceType": "{{$.inputs.parameters['t']}}", "resourceCount": "1"},
    ],
)
def test_an_accelerator_of_its_own_contradicts_a_share(accelerator):
    text = dumped(changed((*TRAIN, "resources"), {"accelerator": accelerator}))
    assert [code for code, _ in refusals(text, POLICY)] == ["whole-gpu"]


def test_importers_and_other_containers_than_main_are_refused():
    assert [code for code, _ in refusals(dumped(IR), "import: share=0.5")] == ["no-pod"]
    assert [code for code, _ in refusals(dumped(IR), "train: share=0.5,container=side")] == ["unknown-container"]


def test_a_component_that_hands_its_environment_on_is_refused():
    text = dumped(changed(("components", "comp-train", "taskConfigPassthroughs"), [{"field": "ENV"}]))
    assert [code for code, _ in refusals(text, POLICY)] == ["kfp-passthrough"]
    kept = [{"field": "ENV", "applyToTask": True}]
    assert compiled(dumped(changed(("components", "comp-train", "taskConfigPassthroughs"), kept)), POLICY).policies


def test_a_policy_that_strayed_is_refused():
    pipeline, platform = yaml.safe_load_all(compiled(dumped(IR), POLICY).text)
    executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    executors["exec-train"]["podMetadata"]["annotations"]["pillion.dev/share"] = "0.6"
    assert [code for code, _ in refusals(dumped(pipeline, platform))] == ["kfp-policy-leak"]
    assert [code for code, _ in refusals(dumped(IR, platform))] == ["kfp-policy-leak"]


def test_a_policy_is_changed_together_with_its_hash():
    once = compiled(dumped(IR), POLICY).text
    twice = compiled(once, "train: share=0.75").text
    assert compiled(twice).text is twice
    pipeline, platform = yaml.safe_load_all(twice)
    metadata = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]["exec-train"]["podMetadata"]
    assert metadata["annotations"]["pillion.dev/share"] == "0.75"
    before, _ = yaml.safe_load_all(once)
    environment = ("deploymentSpec", "executors", "exec-train", "container", "env")
    assert at(pipeline, environment)[0]["name"] == at(before, environment)[0]["name"] == "PILLION_POLICY_HASH"
    assert at(pipeline, environment)[0]["value"] != at(before, environment)[0]["value"]
