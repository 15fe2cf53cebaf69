"""`pillion compile --from hami`."""

import json
from pathlib import Path

import pytest
import yaml

from pillion.authoring.findings import ManifestError
from pillion.authoring.manifests.compile import compile_text
from pillion.authoring.manifests.settings import parse_setting


def template(limits, *, requests=None, env=(), **more):
    container = {"image": "x", "env": list(env), "resources": {"limits": limits}}
    if requests is not None:
        container["resources"]["requests"] = requests
    return {"name": "t", "container": container, **more}


def workflow(*templates):
    return json.dumps(
        {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "spec": {"templates": list(templates)}}
    )


def translated(*templates, settings=()):
    result = compile_text(workflow(*templates), "wf.json", [parse_setting(each) for each in settings], "hami")
    return result, json.loads(result.text)["spec"]["templates"]


def policy(limits, **more):
    result, (step,) = translated(template({"nvidia.com/gpu": 1, **limits}, **more))
    annotations = step["metadata"]["annotations"]
    prefix = "pillion.dev/"
    notes = [finding.problem.code for finding in result.findings]
    return {key.removeprefix(prefix): value for key, value in annotations.items() if key.startswith(prefix)}, notes


def refusals(*templates):
    with pytest.raises(ManifestError) as refused:
        translated(*templates)
    return [(finding.problem.code, finding.problem.what) for finding in refused.value.findings]


INEXACT = "inexact-translation"


@pytest.mark.parametrize(
    ("limits", "expected", "notes"),
    [
        ({"gpucores": 30, "gpumem": 3000}, {"share": "0.3", "memory": "3000Mi", "priority": "normal"}, []),
        ({"gpucores": "100", "gpumem": "3000"}, {"share": "1", "memory": "3000Mi", "priority": "normal"}, []),
        ({"gpucores": 50, "gpumem-percentage": 50}, {"share": "0.5", "priority": "normal"}, []),
        # Where compute and memory differ, the step gets the larger part of both.
        ({"gpucores": 30, "gpumem-percentage": 50}, {"share": "0.5", "priority": "normal"}, [INEXACT]),
        ({"gpucores": 50, "gpumem-percentage": 30}, {"share": "0.5", "priority": "normal"}, [INEXACT]),
        ({"gpumem-percentage": 40}, {"share": "0.4", "priority": "normal"}, [INEXACT]),
        ({"gpucores": 30}, {"share": "0.3", "priority": "normal"}, [INEXACT]),
        ({"gpumem": 3000}, {"memory": "3000Mi", "priority": "low"}, [INEXACT]),
        ({"gpumem": 3000, "gpucores": 0}, {"memory": "3000Mi", "priority": "low"}, [INEXACT]),
        ({"gpucores": 30, "gpumem": 3000, "priority": 0}, {"share": "0.3", "memory": "3000Mi", "priority": "high"}, []),
        ({"gpucores": 30, "gpumem": 3000, "priority": 1}, {"share": "0.3", "memory": "3000Mi", "priority": "low"}, []),
    ],
)
def test_resources_become_terms(limits, expected, notes):
    assert policy({f"nvidia.com/{name}": amount for name, amount in limits.items()}) == (expected, notes)


def test_a_cap_that_is_always_enforced_is_a_limit():
    force = [{"name": "GPU_CORE_UTILIZATION_POLICY", "value": "force"}]
    expected = {"share": "0.3", "limit": "0.3", "memory": "3000Mi", "priority": "normal"}
    assert policy({"nvidia.com/gpucores": 30, "nvidia.com/gpumem": 3000}, env=force) == (expected, [])


def test_the_words_go_and_leave_no_empty_husks():
    words = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30}
    _, (step,) = translated(template(words, requests=words))
    assert step["container"] == {"image": "x", "env": []}
    _, (step,) = translated(template({"cpu": 1, **words}, requests=words))
    assert step["container"]["resources"] == {"limits": {"cpu": 1}}


def test_yaml_keeps_its_other_lines():
    before = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    resources:\n"
        "      limits:\n        cpu: 2  # two\n        nvidia.com/gpu: 1\n        nvidia.com/gpumem: 3000  # MiB\n"
        "        nvidia.com/gpucores: 30\n      requests:\n        nvidia.com/gpu: 1\n    image: x\n"
    )
    after = compile_text(before, "pod.yaml", translate="hami").text
    assert "    resources:\n      limits:\n        cpu: 2  # two\n    image: x\n" in after
    assert yaml.safe_load(after)["spec"] == {
        "containers": [{"name": "c", "resources": {"limits": {"cpu": 2}}, "image": "x"}],
        "priorityClassName": "pillion-normal",
    }


def test_the_scheduler_goes_and_selectors_stay_both_with_a_warning():
    metadata = {"annotations": {"nvidia.com/use-gputype": "A100"}}
    words = {"nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30}
    result, (step,) = translated(template(words, schedulerName="hami-scheduler", metadata=metadata))
    assert "schedulerName" not in step
    assert step["metadata"]["annotations"]["nvidia.com/use-gputype"] == "A100"
    assert [finding.problem.code for finding in result.findings] == [INEXACT, INEXACT]


def test_another_container_than_the_default_is_named():
    sidecar = {"name": "side", "resources": {"limits": {"nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30}}}
    _, (step,) = translated({"name": "t", "container": {"image": "x"}, "sidecars": [sidecar]})
    assert step["metadata"]["annotations"]["pillion.dev/container"] == "side"
    assert step["sidecars"] == [{"name": "side"}]


def test_a_whole_gpu_is_left_alone():
    text = workflow(template({"nvidia.com/gpu": 2}))
    assert compile_text(text, "wf.json", translate="hami").text is text


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        ({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 1000}, "nvidia.com/gpu is 2"),
        ({"nvidia.com/gpumem": 0}, "nvidia.com/gpumem is 0"),
        ({"nvidia.com/gpumem": "16Gi"}, 'nvidia.com/gpumem is "16Gi"'),
        ({"nvidia.com/gpucores": 101, "nvidia.com/gpumem": 1}, "nvidia.com/gpucores is 101"),
        ({"nvidia.com/gpumem-percentage": "-1"}, 'nvidia.com/gpumem-percentage is "-1"'),
        ({"nvidia.com/gpumem": 1, "nvidia.com/gpumem-percentage": 1}, "nvidia.com/gpumem and nvidia.com/gpumem-percentage are both set"),
        ({"nvidia.com/gpumem": 1, "nvidia.com/priority": "high"}, 'nvidia.com/priority is "high"'),
    ],
)  # fmt: skip
def test_what_is_out_of_range_is_refused(limits, what):
    assert ("cannot-translate", what) in refusals(template(limits))


def test_two_containers_with_a_part_each_are_refused():
    words = {"nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30}
    sidecar = {"name": "side", "resources": {"limits": words}}
    assert refusals(template(words, sidecars=[sidecar])) == [
        ("cannot-translate", "the containers main, side each ask for a part of a GPU")
    ]


def test_a_high_step_without_cores_needs_its_share_said():
    step = template({"nvidia.com/gpumem": 3000, "nvidia.com/priority": 0})
    assert [code for code, _ in refusals(step)] == ["missing-share"]
    _, (said,) = translated(step, settings=["t: share=0.5"])
    assert said["metadata"]["annotations"]["pillion.dev/share"] == "0.5"


def test_the_public_examples_are_translated_or_refused_for_asking_two_gpus():
    folder = Path(__file__).parents[4] / "shared" / "corpus" / "hami"
    if not folder.is_dir():
        pytest.skip(f"the public corpus is not at {folder}")
    outcomes = {}
    for file in folder.glob("*.yaml"):
        text = file.read_text()
        try:
            outcomes[file.name] = (
                "unchanged" if compile_text(text, file.name, translate="hami").text is text else "changed"
            )
        except ManifestError as error:
            outcomes[file.name] = {finding.problem.what for finding in error.findings}
    shared = {"dynamic_mig_example.yaml", "use_memory_fraction.yaml", "vllm_cross_vgpu.yaml"}
    assert {name for name, outcome in outcomes.items() if outcome == {"nvidia.com/gpu is 2"}} == shared
    assert {outcome for name, outcome in outcomes.items() if name not in shared} == {"unchanged"}
