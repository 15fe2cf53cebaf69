"""`pillion.defaults(...)`: as a block, below `@dsl.pipeline`, around whole pipelines; steps that say more keep it."""

import pytest
from kfp import components, dsl

import pillion
from pillion import PolicyError, gpu_share, priority

LOW = {"pillion.dev/memory": "8Gi", "pillion.dev/priority": "low", "pillion.dev/share": "0.5"}


@dsl.component(base_image="python:3.11")
def load() -> dsl.Dataset: ...


@dsl.component(base_image="python:3.11")
def train(): ...


half = gpu_share(0.5, memory="8Gi")(train)


def annotations(compiled, pipeline):
    found = compiled(pipeline)
    return {label: found.annotations(label) for label in found.executors}


def test_a_priority_reaches_the_steps_that_share_a_gpu_and_no_others(compiled):
    @dsl.pipeline(name="p")
    @pillion.defaults(priority="low")
    def p():
        half()
        priority("high")(half())
        train()
        gpu_share(memory="2Gi")(train())

    assert annotations(compiled, p) == {
        "exec-train": LOW,
        "exec-train-2": {**LOW, "pillion.dev/priority": "high"},
        "exec-train-3": {},
        "exec-train-4": {"pillion.dev/memory": "2Gi", "pillion.dev/priority": "low"},
    }


def test_a_share_reaches_every_step_that_runs_a_container(compiled):
    @dsl.pipeline(name="p")
    def p():
        with pillion.defaults(share=0.5, memory="8Gi", priority="low"):
            dsl.importer(artifact_uri="gs://x", artifact_class=dsl.Dataset)
            load()
            train()
            gpu_share(0.25, memory="4Gi")(train())
        train()

    assert annotations(compiled, p) == {
        "exec-importer": {},
        "exec-load": LOW,
        "exec-train": LOW,
        "exec-train-2": {"pillion.dev/memory": "4Gi", "pillion.dev/priority": "low", "pillion.dev/share": "0.25"},
        "exec-train-3": {},
    }


def test_the_spec_is_the_one_that_tags_on_each_step_give(compiled):
    def build(component, decorate):
        @dsl.pipeline(name="p")
        @decorate
        def p():
            with dsl.ParallelFor([1, 2]):
                component()

        return compiled(p).text

    by_default = build(train, pillion.defaults(share=0.5, memory="8Gi", priority="low", on_preempt="evict", retries=3))
    by_tags = build(priority("low", on_preempt="evict", retries=3)(half), lambda function: function)
    assert by_default == by_tags


def test_the_innermost_block_wins_and_a_block_ends(compiled):
    @dsl.pipeline(name="p")
    def p():
        with pillion.defaults(share=0.5, memory="8Gi", priority="high"):
            with pillion.defaults(priority="low"):
                train()
            train()
        train()

    assert annotations(compiled, p) == {
        "exec-train": LOW,
        "exec-train-2": {**LOW, "pillion.dev/priority": "high"},
        "exec-train-3": {},
    }


def test_a_block_may_surround_the_pipeline(compiled):
    with pillion.defaults(share=0.5, memory="8Gi", priority="low"):

        @dsl.pipeline(name="p")
        def p():
            train()

    assert annotations(compiled, p) == {"exec-train": LOW}


def test_exit_tasks_are_steps_too(compiled):
    @dsl.pipeline(name="p")
    @pillion.defaults(share=0.5, memory="8Gi", priority="low")
    def p():
        with dsl.ExitHandler(load()):
            train()

    assert annotations(compiled, p) == {"exec-train": LOW, "exec-load": LOW}


def test_the_function_keeps_its_name_docs_arguments_and_outputs(compiled):
    def build(decorate):
        @dsl.pipeline
        @decorate
        def nightly(rate: float = 0.1) -> float:
            """Train every night."""
            return add(rate=rate).output

        return nightly

    @dsl.component(base_image="python:3.11")
    def add(rate: float) -> float:
        return rate

    plain, tagged = build(lambda function: function), build(pillion.defaults(priority="low"))
    assert (tagged.name, tagged.description) == ("nightly", "Train every night.")
    assert compiled(tagged).text == compiled(plain).text


def test_above_the_pipelines_decorator_they_come_too_late():
    with pytest.raises(PolicyError) as caught:

        @pillion.defaults(priority="low")
        @dsl.pipeline(name="nightly")
        def p():
            train()

    assert str(caught.value) == (
        "defaults with priority('low') are applied to the pipeline \"nightly\", whose steps are compiled already; "
        "defaults stand around the steps while they are made (put it below @dsl.pipeline)"
    )
    assert caught.value.problems[0].code == "defaults-target"


def test_on_a_component_they_are_refused():
    with pytest.raises(PolicyError, match='the component "train"'):
        pillion.defaults(priority="low")(train)


def test_on_a_components_function_they_are_refused():
    with pytest.raises(PolicyError) as caught:

        @dsl.component(base_image="python:3.11")
        @pillion.defaults(priority="low")
        def step(): ...

    assert [(problem.code, problem.where) for problem in caught.value.problems] == [
        ("defaults-target", 'component "step"')
    ]


def inner(tag):
    @dsl.pipeline(name="inner")
    def inner():
        load()
        tag(train())

    return inner


@pytest.mark.parametrize(
    ("defaults", "tag", "missed"),
    [
        ({"share": 0.5}, lambda task: task, "load, train"),
        ({"share": 0.5}, gpu_share(0.5), "load"),
        ({"priority": "low"}, gpu_share(0.5), "train"),
        ({"share": 0.5, "priority": "low"}, gpu_share(0.5), "load, train"),
    ],
)
def test_steps_of_a_nested_pipeline_that_they_cannot_reach_are_named(defaults, tag, missed):
    nested = inner(tag)
    with pytest.raises(PolicyError, match=f"they would have to reach {missed} ") as caught:

        @dsl.pipeline(name="outer")
        def outer():
            with pillion.defaults(**defaults):
                nested()

    assert [(problem.code, problem.where) for problem in caught.value.problems] == [
        ("defaults-nested", 'pipeline "inner"')
    ]


def test_a_nested_pipeline_that_lacks_nothing_may_stand_in_a_block(compiled):
    nested = inner(lambda task: gpu_share(0.25)(priority("high")(task)))

    @dsl.pipeline(name="outer")
    @pillion.defaults(priority="low")
    def outer():
        nested()
        half()

    assert annotations(compiled, outer) == {
        "exec-load": {},
        "exec-train": {"pillion.dev/priority": "high", "pillion.dev/share": "0.25"},
        "exec-train-2": LOW,
    }


def test_steps_two_pipelines_deep_are_named_by_their_path():
    deepest = inner(gpu_share(0.5))

    @dsl.pipeline(name="middle")
    def middle():
        deepest()

    with pytest.raises(PolicyError, match="reach inner/train "):

        @dsl.pipeline(name="outer")
        def outer():
            with pillion.defaults(priority="low"):
                middle()


def test_a_pipeline_from_a_file_is_judged_by_what_stands_in_it(compiled):
    loaded = components.load_component_from_text(compiled(inner(gpu_share(0.5))).text)

    @dsl.pipeline(name="outer")
    @pillion.defaults(priority="low")
    def outer():
        loaded()

    with pytest.raises(PolicyError, match="reach load "):

        @dsl.pipeline(name="outer")
        @pillion.defaults(share=0.5)
        def refused():
            loaded()


def test_steps_with_whole_gpus_are_left_alone(compiled):
    @dsl.pipeline(name="whole")
    def whole():
        train().set_accelerator_type("nvidia.com/gpu").set_accelerator_limit(2)

    loaded = components.load_component_from_text(compiled(whole).text)

    @dsl.pipeline(name="p")
    @pillion.defaults(share=0.5, memory="8Gi", priority="low")
    def p():
        train().set_accelerator_type("nvidia.com/gpu").set_accelerator_limit(1)
        train()
        whole()
        loaded()

    assert annotations(compiled, p) == {
        "exec-train": {},
        "exec-train-2": LOW,
        "exec-train-3": {},
        "exec-train-4": {},
    }


def test_a_run_time_value_in_defaults_is_refused():
    with pytest.raises(PolicyError, match=r"kfp|KFP") as caught:

        @dsl.pipeline(name="p")
        @pillion.defaults(share="{{inputs.parameters.share}}")
        def p():
            train()

    assert [problem.code for problem in caught.value.problems] == ["kfp-parameter"]
