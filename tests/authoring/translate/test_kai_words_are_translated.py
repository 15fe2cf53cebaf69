"""`pillion compile --from kai`."""

import textwrap
from pathlib import Path

import pytest
import yaml

from pillion.authoring.findings import ManifestError
from pillion.authoring.manifests.compile import compile_text
from pillion.authoring.manifests.settings import parse_setting

POD = textwrap.dedent("""\
    apiVersion: v1
    kind: Pod
    metadata:
      name: p
      labels:
        kai.scheduler/queue: team
      annotations: {annotations}
    spec:
      schedulerName: {scheduler}
      containers: [{{name: a}}, {{name: b}}]
    """)


def translated(annotations, *settings, scheduler="default-scheduler", source="kai"):
    text = POD.format(annotations=annotations, scheduler=scheduler)
    return compile_text(text, "pod.yaml", [parse_setting(setting) for setting in settings], source)


def annotations_of(result):
    return yaml.safe_load(result.text)["metadata"]["annotations"]


def notes(result):
    return [(finding.severity, finding.problem.code, finding.position.line) for finding in result.findings]


def refusals(annotations, *settings):
    with pytest.raises(ManifestError) as refused:
        translated(annotations, *settings)
    return [(f.problem.code, f.position.line, f.problem.what) for f in refused.value.findings]


def test_a_fraction_is_a_share_of_the_first_container_and_nothing_foreign_is_left():
    result = translated('{gpu-fraction: "0.5"}', scheduler="kai-scheduler")
    assert yaml.safe_load(result.text) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "labels": {"kai.scheduler/queue": "team", "pillion.dev/managed": "true"},
            "annotations": {
                "pillion.dev/container": "a",
                "pillion.dev/priority": "normal",
                "pillion.dev/share": "0.5",
            },
        },
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], "priorityClassName": "pillion-normal"},
    }
    assert notes(result) == [("warning", "inexact-translation", 9)]  # the scheduler


def test_the_named_container_gets_the_gpu():
    result = translated('{gpu-fraction: "0.25", gpu-fraction-container-name: b, gpu-fraction-num-devices: "1"}')
    assert annotations_of(result) == {
        "pillion.dev/container": "b",
        "pillion.dev/priority": "normal",
        "pillion.dev/share": "0.25",
    }
    assert notes(result) == []


def test_an_amount_of_memory_becomes_a_low_step_and_says_so():
    result = translated('{gpu-memory: "2000", gpu-fraction-container-name: b}')
    assert annotations_of(result) == {
        "pillion.dev/container": "b",
        "pillion.dev/memory": "2000Mi",
        "pillion.dev/priority": "low",
    }
    assert notes(result) == [("warning", "inexact-translation", 7)]


def test_a_setting_goes_before_a_translation():
    result = translated('{gpu-memory: "2000", gpu-fraction-container-name: b}', "p: share=0.3,priority=normal")
    assert annotations_of(result) == {
        "pillion.dev/container": "b",
        "pillion.dev/memory": "2000Mi",
        "pillion.dev/priority": "normal",
        "pillion.dev/share": "0.3",
    }


def test_a_fraction_with_too_many_decimals_is_rounded_up():
    result = translated('{gpu-fraction: "0.3333"}')
    assert annotations_of(result)["pillion.dev/share"] == "0.334"
    assert notes(result) == [("warning", "inexact-translation", 7)]


@pytest.mark.parametrize("value", ['"0"', '"0.001"', '"1.5"', '"-0.5"', '"half"', '"nan"', '"1e-1"', "true", "[0.5]"])
def test_a_fraction_out_of_range_is_refused(value):
    ((code, line, what),) = refusals(f"{{gpu-fraction: {value}, gpu-fraction-container-name: a}}")
    assert (code, line) == ("cannot-translate", 7)
    assert what.startswith("gpu-fraction is ")


@pytest.mark.parametrize("value", ['"0"', '"8Gi"', '"2.5"', '"99999999999"', '""'])
def test_a_memory_out_of_range_is_refused(value):
    assert refusals(f"{{gpu-memory: {value}}}")[0][:2] == ("cannot-translate", 7)


@pytest.mark.parametrize(
    "annotations",
    ['{gpu-fraction: "0.5", gpu-memory: "2000"}', '{gpu-fraction: "0.5", gpu-fraction-num-devices: "2"}'],
)
def test_what_one_shared_gpu_cannot_be_is_refused(annotations):
    assert [code for code, _, _ in refusals(annotations)] == ["cannot-translate"]


def test_words_that_pillion_has_no_like_of_stay_with_a_warning():
    result = translated('{gpu-fraction: "0.5", gpu-sm-percentage: "40"}')
    assert annotations_of(result)["gpu-sm-percentage"] == "40"
    assert notes(result) == [("warning", "inexact-translation", 7)]


def test_steps_without_such_words_are_left_alone():
    text = POD.format(annotations="{team: vision}", scheduler="kai-scheduler")
    assert compile_text(text, "pod.yaml", translate="kai").text is text


def test_templates_are_translated_in_place():
    text = textwrap.dedent("""\
        apiVersion: argoproj.io/v1alpha1
        kind: Workflow
        spec:
          templates:
            - name: tune
              metadata:
                annotations:
                  gpu-fraction: "0.5"  # half of a GPU
                  note: mine
              container: {image: x}
        """)
    assert compile_text(text, "wf.yaml", translate="kai").text == text.replace(
        '          gpu-fraction: "0.5"  # half of a GPU\n          note: mine\n',
        "          note: mine\n          pillion.dev/priority: normal\n"
        '          pillion.dev/share: "0.5"\n        labels:\n          pillion.dev/managed: "true"\n',
    ).replace("    - name: tune\n", "    - name: tune\n      priorityClassName: pillion-normal\n")


def test_the_public_example_is_translated():
    path = Path(__file__).parents[4] / "shared" / "corpus" / "kai"
    if not path.is_dir():
        pytest.skip(f"the public corpus is not at {path}")
    (file,) = path.glob("*.yaml")
    before = yaml.safe_load(file.read_text())
    after = yaml.safe_load(compile_text(file.read_text(), file.name, translate="kai").text)
    before["metadata"]["annotations"] = {
        "pillion.dev/container": "gpu-workload",
        "pillion.dev/priority": "normal",
        "pillion.dev/share": "0.5",
    }
    before["metadata"]["labels"]["pillion.dev/managed"] = "true"
    del before["spec"]["schedulerName"]
    before["spec"]["priorityClassName"] = "pillion-normal"
    assert after == before
