"""Importers, pipelines, outputs, groups and run-time values: the error comes where the directive is applied."""

import pytest
from kfp import components, dsl

from pillion import PolicyError, gpu_share, priority


@dsl.component(base_image="python:3.11")
def train(share: float = 0.5) -> str:
    return ""


@dsl.pipeline(name="inner")
def inner():
    train()


def refused(body):
    """Run `body` inside a pipeline; return the problem and check that it was raised from there."""
    caught = []

    with pytest.raises(PolicyError) as outer:

        @dsl.pipeline(name="p")
        def p(text: str = "x"):
            train()
            try:
                body(text)
            except PolicyError as error:
                caught.append(error)
                raise

    assert caught == [outer.value]
    (problem,) = outer.value.problems
    return problem


def test_an_importers_task():
    problem = refused(lambda _: gpu_share(0.5)(dsl.importer(artifact_uri="gs://x", artifact_class=dsl.Dataset)))
    assert str(problem) == (
        'component "importer": gpu_share(0.5) is applied to an importer; an importer runs no container and needs no '
        "GPU (remove it)"
    )
    assert problem.code == "kfp-importer"


@pytest.mark.parametrize("directive", [gpu_share(0.5), priority("low")], ids=repr)
def test_a_pipeline(directive):
    with pytest.raises(PolicyError) as caught:
        directive(inner)
    (problem,) = caught.value.problems
    assert (problem.code, problem.where) == ("kfp-pipeline", 'component "inner"')
    assert problem.what == f"{directive!r} is applied to a pipeline"
    assert problem.fix == "for all steps of the pipeline, put @pillion.defaults(...) below its @dsl.pipeline"


def test_a_pipeline_from_a_file(compiled):
    with pytest.raises(PolicyError, match="is applied to a pipeline"):
        gpu_share(0.5)(components.load_component_from_text(compiled(inner).text))


def test_a_nested_pipelines_task():
    assert refused(lambda _: gpu_share(0.5)(inner())).code == "kfp-pipeline"


def test_a_tasks_output():
    problem = refused(lambda _: gpu_share(0.5)(train().output))
    assert (problem.code, problem.what) == ("kfp-no-step", 'gpu_share(0.5) is applied to the output "Output"')
    assert problem.fix == "apply it to the task itself"


def test_a_group_of_tasks():
    problem = refused(lambda _: gpu_share(0.5)(dsl.ParallelFor([1, 2])))
    assert (problem.code, problem.what) == ("kfp-no-step", "gpu_share(0.5) is applied to a dsl.ParallelFor")
    assert problem.fix == "use `with pillion.defaults(...)` inside it"


def test_something_else_of_kfps():
    with pytest.raises(PolicyError, match="it takes a component or a task"):
        gpu_share(0.5)(dsl.ContainerSpec(image="x"))


@pytest.mark.parametrize(
    "say",
    [
        lambda text: gpu_share(text),
        lambda text: gpu_share(f"{text}"),
        lambda text: gpu_share(0.5, memory=f"{text}Gi"),
        lambda text: gpu_share(train().output),
        lambda text: priority(text),
        lambda text: gpu_share("{{inputs.parameters.share}}")(train()),
        lambda text: gpu_share("{{inputs.parameters.share}}")(train),
    ],
    ids=["channel", "f-string", "part of a text", "output", "tier", "argo on a task", "argo on a component"],
)
def test_a_run_time_value(say):
    problem = refused(say)
    assert problem.code == "kfp-parameter"
    assert problem.allowed == "no KFP run-time value reaches an annotation: it must be known when compiling"


def test_an_item_of_a_loop():
    def body(_):
        with dsl.ParallelFor([0.25, 0.5]) as share:
            gpu_share(share)(train())

    assert refused(body).code == "kfp-parameter"


@pytest.mark.parametrize("apply", [lambda tag: tag(train), lambda tag: tag(train())], ids=["component", "task"])
def test_another_container_than_the_steps_own(apply):
    problem = refused(lambda _: apply(gpu_share(0.5, container="sidecar")))
    assert (problem.code, problem.allowed) == ("kfp-container", 'the container of a KFP step is called "main"')
