"""A policy on something that makes no pod of the author's, or on one call, is an error at once, with what to do instead."""

import pytest
from hera.workflows import (
    DAG,
    HTTP,
    ClusterWorkflowTemplate,
    Container,
    ContainerNode,
    CronWorkflow,
    Data,
    Parallel,
    Parameter,
    Resource,
    S3Artifact,
    Step,
    Steps,
    Suspend,
    Task,
    UserContainer,
    Workflow,
    WorkflowTemplate,
    models,
)

from pillion import PolicyError, defaults, gpu_share, priority


def refused(call):
    with pytest.raises(PolicyError) as caught:
        call()
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("target", "reason", "fix"),
    [
        (HTTP(name="ping", url="http://x"), "sent by Argo's agent", "remove it here"),
        (Suspend(name="wait"), "creates no pod", "remove it here"),
        (DAG(name="all"), "only orders other templates", "pillion.defaults"),
        (Steps(name="all"), "only orders other templates", "pillion.defaults"),
        (Resource(name="make", action="create"), "Argo's own executor", "what the manifest creates"),
        (Data(name="list", source=S3Artifact(name="a", key="k")), "Argo's own executor", "remove it here"),
    ],
)
@pytest.mark.parametrize("directive", [gpu_share(0.5), priority("low")])
def test_templates_without_a_pod_of_the_authors(target, reason, fix, directive):
    problem = refused(lambda: directive(target))
    assert problem.code == "no-pod"
    assert problem.what == f'{directive!r} is applied to the {type(target).__name__} "{target.name}"'
    assert reason in problem.allowed
    assert fix in problem.fix


@pytest.mark.parametrize("call", [Task(name="first", template="train"), Step(name="first", template="train")])
def test_one_call_of_a_template(call):
    problem = refused(lambda: gpu_share(0.5)(call))
    assert problem.code == "not-a-template"
    assert 'gpu_share("{{inputs.parameters.share}}")' in problem.fix


def test_the_call_that_a_script_or_container_returns():
    train = Container(name="train", image="i")
    with Workflow(name="nightly"), DAG(name="all"):
        call = train()
        assert refused(lambda: gpu_share(0.5)(call)).code == "not-a-template"


@pytest.mark.parametrize("kind", [Workflow, WorkflowTemplate, CronWorkflow, ClusterWorkflowTemplate])
def test_a_whole_workflow(kind):
    problem = refused(lambda: priority("low")(kind(name="nightly")))
    assert (problem.code, problem.fix) == (
        "not-a-template",
        "pillion.defaults(...)(workflow) speaks for all its steps",
    )


@pytest.mark.parametrize("container", [ContainerNode(name="a", image="i"), UserContainer(name="a", image="i")])
def test_one_container_of_a_pod(container):
    problem = refused(lambda: gpu_share(0.5)(container))
    assert problem.code == "not-a-template"
    assert "container=" in problem.fix


@pytest.mark.parametrize("other", [models.Template(name="train"), Parameter(name="share"), Parallel()])
def test_other_objects_of_hera(other):
    problem = refused(lambda: gpu_share(0.5)(other))
    assert (problem.code, problem.allowed) == (
        "not-a-template",
        "in Hera it belongs to a Container, Script or ContainerSet",
    )


@pytest.mark.parametrize("target", [Container(name="train", image="i"), DAG(name="all"), Task(name="a", template="b")])
def test_defaults_of_anything_but_a_workflow(target):
    problem = refused(lambda: defaults(priority="low")(target))
    assert problem.code == "defaults-target"


def test_a_directive_twice_on_one_template():
    train = gpu_share(0.5)(Container(name="train", image="i"))
    problem = refused(lambda: gpu_share(0.25)(train))
    assert (problem.code, problem.where) == ("directive-twice", 'template "train"')
    assert problem.what == "gpu_share(0.25) is applied where gpu_share(0.5) already is"
