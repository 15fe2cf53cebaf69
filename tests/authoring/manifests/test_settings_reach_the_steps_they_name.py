"""`pillion compile --set 'train.*: share=0.5'`."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pillion.authoring.findings import ManifestError
from pillion.authoring.manifests.compile import compile_text
from pillion.authoring.manifests.settings import SettingError, parse_setting
from pillion.policy import Memory, OnPreempt, Terms, Tier


def workflow(*templates):
    return json.dumps(
        {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "spec": {"templates": list(templates)}}, indent=2
    )


def template(name, **more):
    return {"name": name, "container": {"image": "x"}, **more}


def compiled(text, *settings):
    return compile_text(text, "wf.json", [parse_setting(setting) for setting in settings])


def policies(text, *settings):
    return dict(compiled(text, *settings).policies)


def refusal(text, *settings):
    with pytest.raises(ManifestError) as refused:
        compiled(text, *settings)
    return [(finding.problem.code, finding.problem.what, finding.problem.allowed) for finding in refused.value.findings]


def test_every_term_can_be_said():
    setting = parse_setting(
        " train.* : share=500m, limit = 0.75,memory=8Gi,priority=high,max-slowdown=2%,max-stall=5ms,"
        "on-preempt=evict,container=main,retries=7"
    )
    assert setting.pattern.pattern == "train.*"
    assert setting.retries == 7
    assert setting.terms == Terms(
        500, 750, Memory(8 << 30, "8Gi"), Tier.HIGH, 20_000, 5_000_000, OnPreempt.EVICT, "main"
    )


def test_patterns_and_values_may_hold_colons_and_commas():
    setting = parse_setting("(?:a|b):c,d: share={{=asFloat(inputs.parameters.n), 2}},memory=1Gi")
    assert setting.pattern.pattern == "(?:a|b):c,d"
    assert setting.terms.share_milli.text == "{{=asFloat(inputs.parameters.n), 2}}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", '"" is not a pattern, a colon and terms'),
        ("train", '"train" is not a pattern, a colon and terms'),
        ("train: share", '"train: share" is not a pattern, a colon and terms'),
        (": share=0.5", "names no step before the colon; '.*' is all of them"),
        ("(a: share=0.5", '"(a" is not a regular expression: missing ), unterminated subpattern'),
        ("a: shar=0.5", '"shar" in "a: shar=0.5" is no term: there are share, limit, memory, priority, max-slowdown, '
         "max-stall, on-preempt, container, retries; did you mean share?"),
        ("a: max_stall=1ms", "did you mean max-stall?"),
        ("a: share=0.5,share=0.6", "says share twice"),
        ("a: share=1.5", 'share is "1.5"; a share is at least 0.01 and at most 1'),
        ("a: share=0,5", '(write "0.5")'),
        ("a: memory=8GB", '(write "8G")'),
        ("a: share=", 'share is ""'),
        ("a: retries=-1", 'retries is "-1"; it is a whole number from 0 to 1000'),
        ("a: retries=1001", "it is a whole number from 0 to 1000"),
        ("a: retries=½", "it is a whole number from 0 to 1000"),
        ("a: share=0.5,limit=0.2", "limit 0.2 is below share 0.5"),
        ("a: priority=low,max-stall=1ms", "max-stall is set on a low step"),
        ("a: share=nan", 'share is "nan"'),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_misuse_and_says_how_to_write_it(text, message):
    with pytest.raises(SettingError) as refused:
        parse_setting(text)
    assert message in str(refused.value)


@given(st.text(max_size=40))
def test_no_text_makes_the_reader_fail_otherwise(text):
    try:
        parse_setting(text)
        parse_setting(f"x: share={text}")
    except SettingError as error:
        assert str(error)


def test_a_pattern_matches_whole_names():
    text = workflow(template("train"), template("train-big"), template("pretrain"))
    assert list(policies(text, "train: share=0.5")) == ["train"]
    assert list(policies(text, "train.*: share=0.5")) == ["train", "train-big"]
    assert list(policies(text, ".*train.*: share=0.5")) == ["train", "train-big", "pretrain"]


def test_a_setting_changes_what_it_says_and_leaves_the_rest_of_the_policy():
    annotations = {"pillion.dev/memory": "8Gi", "pillion.dev/priority": "low", "pillion.dev/limit": "0.5"}
    text = workflow(template("a", metadata={"annotations": annotations}))
    assert policies(text, "a: memory=4Gi") == {"a": {**annotations, "pillion.dev/memory": "4Gi"}}
    assert policies(text, "a: priority=normal,share=0.5,limit=1") == {
        "a": {**annotations, "pillion.dev/priority": "normal", "pillion.dev/share": "0.5", "pillion.dev/limit": "1"}
    }


def test_the_last_of_several_settings_wins_term_by_term():
    text = workflow(template("a"), template("b"))
    assert policies(text, ".*: share=0.5,memory=8Gi", "b: share=0.25") == {
        "a": {"pillion.dev/memory": "8Gi", "pillion.dev/priority": "normal", "pillion.dev/share": "0.5"},
        "b": {"pillion.dev/memory": "8Gi", "pillion.dev/priority": "normal", "pillion.dev/share": "0.25"},
    }


def test_retries_are_written_as_said():
    for said, limit in (("on-preempt=evict", "5"), ("on-preempt=suspend,retries=9", "9"), ("retries=2", "2")):
        (document,) = yaml.safe_load_all(compiled(workflow(template("a")), f"a: share=0.5,{said}").text)
        assert document["spec"]["templates"][0]["retryStrategy"] == {"limit": limit, "retryPolicy": "Always"}
    (document,) = yaml.safe_load_all(compiled(workflow(template("a")), "a: share=0.5,on-preempt=evict,retries=0").text)
    assert "retryStrategy" not in document["spec"]["templates"][0]


def test_steps_that_make_no_pod_are_passed_over_unless_they_are_named():
    text = workflow({"name": "main", "dag": {"tasks": []}}, template("mainly"))
    assert list(policies(text, "main.*: share=0.5")) == ["mainly"]
    assert [code for code, _, _ in refusal(text, "main: share=0.5")] == ["no-pod"]


def test_a_pattern_that_matches_nothing_lists_the_steps():
    text = workflow({"name": "main", "dag": {"tasks": []}}, template("train"), template("evaluate"))
    assert refusal(text, "trian: share=0.5") == [
        ("no-such-step", "no step's whole name matches trian", "the steps that make a pod are train, evaluate")
    ]
    many = workflow(*(template(f"s{number}") for number in range(30)))
    assert refusal(many, "x: share=0.5")[0][2].endswith("s18, s19 and 10 more")
    assert refusal(workflow(), "x: share=0.5")[0][2] == "there is no step that makes a pod"


def test_a_setting_that_is_not_enough_is_refused_with_the_step():
    assert refusal(workflow(template("a")), "a: priority=low")[0][:2] == ("missing-memory", "a low step says no memory")


def test_parameters_are_for_argo_only():
    text = workflow(template("a"))
    assert policies(text, "a: share={{inputs.parameters.x}}")["a"]["pillion.dev/share"] == "{{inputs.parameters.x}}"
    pod = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}})
    assert [code for code, _, _ in refusal(pod, "a: share={{inputs.parameters.x}}")] == ["parameter-not-allowed"]


def test_a_default_that_overrides_what_the_workflow_says_is_spelt_out():
    text = json.dumps(
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "spec": {
                "podMetadata": {"annotations": {"pillion.dev/share": "0.5", "pillion.dev/limit": "0.6"}},
                "templates": [template("a")],
            },
        }
    )
    result = json.loads(compiled(text, "a: limit=1").text)
    assert result["spec"]["templates"][0]["metadata"] == {
        "annotations": {"pillion.dev/limit": "1", "pillion.dev/priority": "normal"}
    }


def test_pods_with_several_containers_say_which():
    containers = [{"name": "a"}, {"name": "b"}]
    pod = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}})
    assert [code for code, _, _ in refusal(pod, "p: share=0.5")] == ["which-container"]
    assert policies(pod, "p: share=0.5,container=b")["p"]["pillion.dev/container"] == "b"
    assert [code for code, _, _ in refusal(pod, "p: share=0.5,container=c")] == ["unknown-container"]


def test_retries_of_kubernetes_kinds_are_their_authors():
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    text = json.dumps({**job, "spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}})
    result = compiled(text, "j: share=0.5,on-preempt=evict,retries=3")
    assert [(finding.severity, finding.problem.code) for finding in result.findings] == [("warning", "own-retries")]
    assert json.loads(result.text)["spec"] == {
        "template": {
            "spec": {"containers": [{"name": "a"}], "priorityClassName": "pillion-normal"},
            "metadata": {
                "annotations": {
                    "pillion.dev/on-preempt": "evict",
                    "pillion.dev/priority": "normal",
                    "pillion.dev/share": "0.5",
                },
                "labels": {"pillion.dev/managed": "true"},
            },
        }
    }
