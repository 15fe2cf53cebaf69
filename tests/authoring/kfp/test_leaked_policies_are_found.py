"""KFP attaches a nested step's settings to an outer step of the same name: shown with plain kfp, and found by us."""

import subprocess
import sys

import pytest
import yaml
from kfp import components, dsl

from pillion import PolicyError, gpu_share
from pillion.authoring.kfp.leaks import leaks

HALF = {"pillion.dev/priority": "normal", "pillion.dev/share": "0.5"}
QUARTER = {"pillion.dev/priority": "normal", "pillion.dev/share": "0.25"}

PLAIN_KFP = """
import sys
from kfp import compiler, dsl, kubernetes

@dsl.component(base_image="python:3.11")
def train(): ...

@dsl.component(base_image="python:3.11")
def evaluate(): ...

def share_half(task):
    kubernetes.add_pod_annotation(task, "pillion.dev/priority", "normal")
    kubernetes.add_pod_annotation(task, "pillion.dev/share", "0.5")
    kubernetes.add_pod_label(task, "pillion.dev/managed", "true")
    task.set_env_variable("PILLION_POLICY_HASH", sys.argv[1])

@dsl.pipeline(name="inner")
def inner():
    share_half(train())
    share_half(evaluate())

@dsl.pipeline(name="outer")
def outer():
    train()
    evaluate()
    inner()

assert "pillion" not in sys.modules
compiler.Compiler().compile(outer, sys.argv[2])
"""


def test_plain_kfp_gives_an_outer_step_the_annotations_of_a_nested_one(tmp_path, hash_of):
    program, output = tmp_path / "plain.py", tmp_path / "outer.yaml"
    program.write_text(PLAIN_KFP)
    subprocess.run([sys.executable, str(program), hash_of(HALF), str(output)], check=True)
    pipeline, platform = yaml.safe_load_all(output.read_text())

    # Neither outer step has a policy of its own, and their containers say so.
    executors, configs = (
        pipeline["deploymentSpec"]["executors"],
        platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"],
    )
    outer = {"exec-train", "exec-evaluate"}
    assert not any("env" in executors[label]["container"] for label in outer)
    # Which of them gets one all the same depends on the order in which a protobuf map is gone through.
    strayed = {label for label in outer if configs.get(label, {}).get("podMetadata", {}).get("annotations") == HALF}
    assert strayed

    found = leaks(pipeline, platform)
    assert {leak.executor for leak in found} == strayed
    for executor, problem in found:
        assert problem.code == "kfp-policy-leak"
        assert str(problem) == (
            f'executor "{executor}": it is annotated with pillion.dev/priority=normal, pillion.dev/share=0.5, but its '
            "container knows nothing of a policy; a policy reaches a step through gpu_share and priority; KFP mixes up "
            "steps when an outer and a nested pipeline have components of the same name (give one of the two components "
            "another name; if you annotated the step by hand, use gpu_share and priority instead)"
        )


def documents(executors, components=None):
    """Return two documents. `executors` maps labels to (hash or None, annotations or None)."""
    containers, configs = {}, {}
    for label, (hashed, annotations) in executors.items():
        variables = [{"name": "PILLION_POLICY_HASH", "value": hashed}] if hashed else []
        containers[label] = {"container": {"image": "x", "env": [{"name": "MODE", "value": "fast"}, *variables]}}
        if annotations is not None:
            configs[label] = {"podMetadata": {"annotations": annotations}}
    pipeline = {"deploymentSpec": {"executors": containers}}
    if components:
        pipeline["components"] = {name: {"executorLabel": label} for name, label in components.items()}
    return pipeline, {"platforms": {"kubernetes": {"deploymentSpec": {"executors": configs}}}}


def codes(executors, components=None):
    return [(leak.executor, leak.problem.code) for leak in leaks(*documents(executors, components))]


def test_steps_with_their_own_policy_or_none_are_fine(hash_of):
    others = {"team.example/owner": "vision"}
    assert codes({"a": (hash_of(HALF), {**HALF, **others}), "b": (None, None), "c": (None, others)}) == []


@pytest.mark.parametrize(
    "same",
    [{"pillion.dev/share": "500m"}, {"pillion.dev/share": "0.50", "pillion.dev/limit": "1"}],
    ids=["other spelling", "default said"],
)
def test_a_policy_is_compared_by_its_meaning(same, hash_of):
    assert codes({"a": (hash_of(HALF), same)}) == []


def test_another_steps_policy_is_a_leak(hash_of):
    ((executor, problem),) = leaks(*documents({"a": (hash_of(HALF), QUARTER)}))
    assert (executor, problem.code, problem.where) == ("a", "kfp-policy-leak", 'executor "a"')
    assert problem.what == (
        "it is annotated with another step's policy (pillion.dev/priority=normal, pillion.dev/share=0.25)"
    )


def test_annotations_without_a_hash_and_a_hash_without_annotations_are_leaks(hash_of):
    assert codes({"a": (None, HALF), "b": (hash_of(HALF), None), "c": (hash_of(HALF), {"other": "x"})}) == [
        ("a", "kfp-policy-leak"),
        ("b", "kfp-policy-leak"),
        ("c", "kfp-policy-leak"),
    ]


def test_without_a_platform_document_every_policy_is_lost(hash_of):
    pipeline, _ = documents({"a": (hash_of(HALF), None), "b": (None, None)})
    assert [leak.executor for leak in leaks(pipeline, None)] == ["a"]


def test_annotations_that_cannot_be_read_are_for_others_to_tell(hash_of):
    assert codes({"a": (hash_of(HALF), {"pillion.dev/share": "half"})}) == []


def test_two_steps_on_one_executor_have_lost_a_policy(hash_of):
    half, quarter = (hash_of(HALF), HALF), (hash_of(QUARTER), QUARTER)
    components = {"comp-train": "exec-train", "comp-train-2": "exec-train-2", "comp-train-3": "exec-train-2"}
    executors = {"exec-train": (None, None), "exec-train-2": quarter, "exec-train-3": half}
    ((executor, problem),) = leaks(*documents(executors, components))
    assert (executor, problem.code) == ("exec-train-2", "kfp-shared-executor")
    assert problem.what == "comp-train-2 and comp-train-3 share it, and a step's own policy is left over"
    # The other way round: a step without policy would get one.
    assert codes({"exec-train": (None, None), "exec-train-2": half, "exec-train-3": (None, None)}, components) == [
        ("exec-train-2", "kfp-shared-executor")
    ]


def test_steps_that_share_an_executor_with_one_policy_have_lost_none(hash_of):
    half = (hash_of(HALF), HALF)
    components = {"comp-train": "exec-train", "comp-train-2": "exec-train"}
    assert codes({"exec-train": half, "exec-train-2": half}, components) == []
    assert codes({"exec-train": half}, components) == []


@pytest.mark.parametrize(
    "odd",
    [
        ({}, {}),
        ({"deploymentSpec": None}, None),
        ({"deploymentSpec": {"executors": ["a"]}}, {"platforms": []}),
        ({"deploymentSpec": {"executors": {"a": None, "b": {"container": {"env": "x"}}}}, "components": {"c": 1}}, {}),
        (
            {"deploymentSpec": {"executors": {"a": {"container": {"env": [None, 1]}}}}, "components": []},
            {"platforms": {"kubernetes": 3}},
        ),
    ],
)
def test_documents_of_other_shapes_have_no_leaks(odd):
    assert leaks(*odd) == []


def test_looking_for_leaks_needs_no_kfp():
    code = "import sys, pillion.authoring.kfp.leaks as l; assert l.leaks({}, None) == []; print('kfp' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_a_tagged_component_from_a_file_must_be_tagged_again(compiled):
    @gpu_share(0.5)
    @dsl.component(base_image="python:3.11")
    def train(): ...

    loaded = components.load_component_from_text(compiled(train).text)

    with pytest.raises(PolicyError, match="apply gpu_share and priority to the loaded component again") as caught:

        @dsl.pipeline(name="p")
        def lost():
            loaded()

    assert [(problem.code, problem.where) for problem in caught.value.problems] == [
        ("kfp-policy-leak", 'executor "exec-train"')
    ]

    @dsl.pipeline(name="p")
    def p():
        gpu_share(0.25)(loaded)()

    assert compiled(p).annotations("exec-train") == QUARTER
