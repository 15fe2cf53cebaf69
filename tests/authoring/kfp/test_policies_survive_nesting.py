"""Pipelines as steps of pipelines: every step keeps its own policy, also where KFP would mix them up."""

import pytest
from kfp import components, dsl

from pillion import PolicyError, gpu_share, priority
from pillion.authoring.kfp import labels

HALF = {"pillion.dev/priority": "normal", "pillion.dev/share": "0.5"}
QUARTER = {"pillion.dev/priority": "normal", "pillion.dev/share": "0.25"}
TENTH = {"pillion.dev/priority": "normal", "pillion.dev/share": "0.1"}


@dsl.component(base_image="python:3.11")
def train(rate: float) -> float:
    return rate


@dsl.component(base_image="python:3.11")
def evaluate(loss: float) -> float:
    return loss


@pytest.fixture
def assert_each_step_has(compiled, hash_of):
    """Check the policy of each step, by the tasks that lead to it; both its annotations and its hash."""

    def check(pipeline, expected):
        found = {}
        for path, (container, config) in compiled(pipeline).steps.items():
            hashes = [each["value"] for each in container.get("env", []) if each["name"] == "PILLION_POLICY_HASH"]
            found["/".join(path)] = (hashes, config.get("podMetadata", {}).get("annotations", {}))
        assert found == {
            path: ([hash_of(annotations)] if annotations else [], annotations) for path, annotations in expected.items()
        }

    return check


def test_outputs_of_nested_pipelines(assert_only_policies_differ):
    def build(tag):
        @dsl.pipeline(name="inner")
        def inner(rate: float) -> float:
            return evaluate(loss=tag(train)(rate=rate).output).output

        @dsl.pipeline(name="outer")
        def outer(rate: float = 0.1) -> float:
            with dsl.ParallelFor([1, 2]):
                inner(rate=rate)
            return inner(rate=0.2).output

        return outer

    found = assert_only_policies_differ(
        build(lambda component: component), build(gpu_share(0.5)), {"exec-train": HALF, "exec-train-2": HALF}
    )
    assert sorted(found.executors) == ["exec-evaluate", "exec-evaluate-2", "exec-train", "exec-train-2"]


def test_components_of_the_same_name_with_different_policies(assert_each_step_has):
    @dsl.pipeline(name="inner")
    def inner():
        gpu_share(0.25)(train(rate=1.0))
        gpu_share(0.1)(train(rate=2.0))
        gpu_share(0.25)(evaluate(loss=1.0))

    @dsl.pipeline(name="outer")
    def outer():
        gpu_share(0.5)(train(rate=0.5))
        evaluate(loss=1.0)
        inner()
        inner()

    assert_each_step_has(
        outer,
        {
            "train": HALF,
            "evaluate": {},
            "inner/train": QUARTER,
            "inner/train-2": TENTH,
            "inner/evaluate": QUARTER,
            "inner-2/train": QUARTER,
            "inner-2/train-2": TENTH,
            "inner-2/evaluate": QUARTER,
        },
    )


def test_three_levels_and_an_exit_task_that_is_a_pipeline(assert_each_step_has):
    @dsl.pipeline(name="deep")
    def deep():
        gpu_share(0.1)(train(rate=1.0))
        evaluate(loss=1.0)

    @dsl.pipeline(name="middle")
    def middle():
        train(rate=1.0)
        gpu_share(0.25)(evaluate(loss=1.0))
        deep()

    @dsl.pipeline(name="outer")
    def outer():
        with dsl.ExitHandler(deep()):
            gpu_share(0.5)(train(rate=1.0))
            middle()

    assert_each_step_has(
        outer,
        {
            "deep/train": TENTH,
            "deep/evaluate": {},
            "exit-handler-1/train": HALF,
            "exit-handler-1/middle/train": {},
            "exit-handler-1/middle/evaluate": QUARTER,
            "exit-handler-1/middle/deep/train": TENTH,
            "exit-handler-1/middle/deep/evaluate": {},
        },
    )


def test_a_nested_pipeline_can_be_used_again(compiled, assert_each_step_has):
    @dsl.pipeline(name="inner")
    def inner():
        gpu_share(0.25)(train(rate=1.0))
        evaluate(loss=1.0)

    alone = compiled(inner).text

    def build():
        @dsl.pipeline(name="outer")
        def outer():
            gpu_share(0.5)(train(rate=1.0))
            inner()

        return outer

    for _ in range(2):
        assert_each_step_has(build(), {"train": HALF, "inner/train": QUARTER, "inner/evaluate": {}})
    assert compiled(inner).text == alone


def test_a_pipeline_that_was_compiled_to_a_file(compiled, assert_each_step_has):
    @dsl.pipeline(name="inner")
    def inner():
        gpu_share(0.25)(train(rate=1.0))
        evaluate(loss=1.0)

    loaded = components.load_component_from_text(compiled(inner).text)

    @dsl.pipeline(name="outer")
    def outer():
        evaluate(loss=1.0)
        priority("normal")(gpu_share(0.5)(train(rate=1.0)))
        loaded()

    assert_each_step_has(outer, {"evaluate": {}, "train": HALF, "inner/train": QUARTER, "inner/evaluate": {}})


def test_if_kfp_mixes_them_up_all_the_same_nothing_is_compiled(monkeypatch):
    monkeypatch.setattr(labels, "separate", lambda pipeline: None)

    @dsl.pipeline(name="inner")
    def inner():
        gpu_share(0.25)(train(rate=1.0))
        gpu_share(0.25)(evaluate(loss=1.0))

    with pytest.raises(PolicyError) as caught:

        @dsl.pipeline(name="outer")
        def outer():
            train(rate=0.5)
            evaluate(loss=1.0)
            inner()

    for problem in caught.value.problems:
        assert problem.code == "kfp-policy-leak"
        assert problem.where in ('executor "exec-train"', 'executor "exec-evaluate"')
        assert "an outer and a nested pipeline have components of the same name" in problem.allowed
        assert "give one of the two components another name" in problem.fix


def test_without_any_policy_kfps_own_labels_stay():
    @dsl.pipeline(name="inner")
    def inner():
        train(rate=1.0)

    @dsl.pipeline(name="outer")
    def outer():
        inner()
        train(rate=1.0)

    executors = outer.pipeline_spec.deployment_spec["executors"]
    assert sorted(executors) == ["exec-train", "exec-train-2"]
    labels = {name: each.executor_label for name, each in outer.pipeline_spec.components.items() if each.executor_label}
    assert labels == {"comp-train": "exec-train", "comp-train-2": "exec-train-2"}
