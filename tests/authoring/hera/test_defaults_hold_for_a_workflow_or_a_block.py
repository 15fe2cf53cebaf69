"""`pillion.defaults` for a workflow, around templates, around calls, around a workflow, around its making."""

import warnings

import pytest
from hera.workflows import (
    DAG,
    HTTP,
    ClusterWorkflowTemplate,
    Container,
    ContainerNode,
    ContainerSet,
    CronWorkflow,
    Data,
    Resource,
    Resources,
    S3Artifact,
    Script,
    Steps,
    Suspend,
    Workflow,
    WorkflowsService,
    WorkflowTemplate,
    script,
)

from pillion import PolicyError, defaults, gpu_share, priority

KINDS = pytest.mark.parametrize("kind", [Workflow, WorkflowTemplate, CronWorkflow, ClusterWorkflowTemplate])
LOW = ({"memory": "1Gi", "priority": "low", "share": "0.5"}, "pillion-low", None)
NORMAL = ({"memory": "1Gi", "priority": "normal", "share": "0.5"}, "pillion-normal", None)
HIGH = ({"memory": "1Gi", "priority": "high", "share": "0.5"}, "pillion-high", None)
GUEST = ({"memory": "4Gi", "priority": "low"}, "pillion-low", None)


def a_container(name="train", **more):
    return Container(name=name, image="i", **more)


def sharing(name="train"):
    return gpu_share(0.5, memory="1Gi")(a_container(name))


@gpu_share(0.5, memory="1Gi")
@script(image="i")
def train():
    """Train."""


@script(image="i")
def report():
    """Report."""


@KINDS
def test_a_priority_for_a_workflow_of_any_kind(kind, policy_of):
    nightly = defaults(priority="low")(kind(name="nightly", templates=[sharing(), a_container("report")]))
    assert isinstance(nightly, kind)
    assert policy_of(nightly) == {"train": LOW}


def test_they_may_come_after_everything_else(policy_of):
    with Workflow(name="nightly", entrypoint="all") as nightly, Steps(name="all"):
        train(), report()
    assert policy_of(nightly) == {"train": NORMAL}
    defaults(priority="low")(nightly)
    assert policy_of(nightly) == {"train": LOW}


def test_a_share_makes_every_step_with_a_pod_share_a_gpu(policy_of):
    nodes = [ContainerNode(name="main", image="i")]
    everything = [
        a_container("container"),
        Script(name="script", image="i", source="print()"),
        ContainerSet(name="set", containers=nodes),
        HTTP(name="http", url="http://x"),
        Suspend(name="suspend"),
        Resource(name="resource", action="get"),
        Data(name="data", source=S3Artifact(name="a", key="k")),
        DAG(name="dag"),
        Steps(name="steps"),
    ]
    nightly = defaults(priority="low", memory="4Gi")(Workflow(name="nightly", templates=everything))
    assert policy_of(nightly) == {"container": GUEST, "script": GUEST, "set": GUEST}


def test_what_a_step_says_itself_wins(policy_of):
    nightly = Workflow(name="nightly", templates=[priority("high")(sharing()), sharing("other"), a_container("third")])
    defaults(priority="low", memory="4Gi")(nightly)
    assert policy_of(nightly) == {"train": HIGH, "other": LOW, "third": GUEST}


def test_a_step_that_asks_for_whole_gpus_keeps_them(policy_of):
    whole = a_container("whole", resources=Resources(gpus=1))
    nightly = Workflow(name="nightly", templates=[whole, a_container()])
    assert policy_of(defaults(priority="low", memory="4Gi")(nightly)) == {"train": GUEST}


def test_annotations_by_hand_count_as_said_by_the_step(policy_of):
    by_hand = {"pillion.dev/share": "0.5", "pillion.dev/memory": "1Gi"}
    nightly = Workflow(name="nightly", templates=[a_container(annotations=by_hand)])
    assert policy_of(defaults(priority="low", memory="4Gi")(nightly)) == {"train": LOW}


def test_a_workflow_read_from_yaml(policy_of):
    text = Workflow(name="nightly", entrypoint="train", templates=[a_container(), Suspend(name="wait")]).to_yaml()
    nightly = Workflow.from_yaml(text)
    assert policy_of(defaults(priority="low", memory="4Gi")(nightly)) == {"train": GUEST}
    assert Workflow.from_yaml(text).to_yaml() == text


def test_a_block_around_the_workflow_holds_after_it_ends(policy_of):
    with defaults(priority="low"), Workflow(name="nightly", entrypoint="all") as nightly, Steps(name="all"):
        train(), report()
    assert policy_of(nightly) == {"train": LOW}


@KINDS
def test_a_block_around_a_workflow_made_from_lists(kind, policy_of):
    templates = [sharing(), a_container("report")]
    with defaults(priority="low"):
        nightly = kind(name="nightly", templates=templates)
    assert policy_of(nightly) == {"train": LOW}
    assert policy_of(kind(name="nightly", templates=templates)) == {"train": NORMAL}


def test_a_block_around_templates_holds_wherever_they_are_used(policy_of):
    with defaults(priority="low"):
        mine = sharing("mine")

        @gpu_share(0.5, memory="1Gi")
        @script(image="i")
        def other():
            pass

    with Workflow(name="nightly", entrypoint="all") as nightly, DAG(name="all"):
        mine() >> other() >> train()
    assert policy_of(nightly) == {"mine": LOW, "other": LOW, "train": NORMAL}


def test_a_block_around_calls_holds_for_the_templates_that_they_call(policy_of):
    with Workflow(name="nightly", entrypoint="all") as nightly, Steps(name="all"):
        with defaults(priority="low"):
            train()
        sharing("other")
    assert policy_of(nightly) == {"train": LOW, "other": NORMAL}


def test_a_block_around_a_script_that_is_called_in_the_workflow_itself(policy_of):
    with Workflow(name="nightly", entrypoint="train") as nightly, defaults(priority="low"):
        train()
    with Workflow(name="nightly", entrypoint="train") as other:
        train()
    assert (policy_of(nightly), policy_of(other)) == ({"train": LOW}, {"train": NORMAL})


def test_a_block_around_the_building(policy_of):
    nightly = Workflow(name="nightly", entrypoint="train", templates=[sharing()])
    with defaults(priority="low"):
        assert policy_of(nightly) == {"train": LOW}
    assert policy_of(nightly) == {"train": NORMAL}


def test_a_function_that_makes_workflows(policy_of):
    @defaults(priority="low")
    def nightly():
        return Workflow(name="nightly", entrypoint="train", templates=[sharing()])

    assert policy_of(nightly()) == {"train": LOW}


def test_the_nearest_wins(policy_of):
    with defaults(priority="low", share=0.5, memory="1Gi"), Workflow(name="nightly", entrypoint="train") as nightly:
        a_container("outer")
        with defaults(priority="high"):
            a_container("inner")
            priority("normal")(a_container("own"))
        with defaults(memory="4Gi"):
            a_container("other")
    assert policy_of(nightly) == {"outer": LOW, "inner": HIGH, "own": NORMAL, "other": GUEST}


def test_defaults_of_a_workflow_are_nearer_than_a_block_around_it(policy_of):
    with defaults(priority="low"), Workflow(name="nightly", entrypoint="all") as nightly, Steps(name="all"):
        train()
        sharing("other")
    assert policy_of(defaults(priority="high")(nightly)) == {"train": HIGH, "other": HIGH}


def test_a_block_inside_a_workflow_is_nearer_than_the_defaults_of_the_workflow(policy_of):
    with Workflow(name="nightly", entrypoint="all") as nightly, Steps(name="all"):
        with defaults(priority="low"):
            train()
        sharing("other")
    assert policy_of(defaults(priority="high")(nightly)) == {"train": LOW, "other": HIGH}


def test_they_do_not_leak_into_other_workflows_of_the_same_template(policy_of):
    shared = sharing()
    low = defaults(priority="low")(Workflow(name="low", templates=[shared]))
    plain = Workflow(name="plain", templates=[shared])
    assert (policy_of(low), policy_of(plain), policy_of(low)) == ({"train": LOW}, {"train": NORMAL}, {"train": LOW})


def test_a_workflow_in_a_resources_manifest_has_defaults_of_its_own(templates, policy_of):
    inner = defaults(priority="high")(Workflow(name="inner", entrypoint="train", templates=[sharing()]))
    alone = inner.to_yaml()
    make = Resource(name="make", action="create", manifest=inner)
    outer = defaults(priority="low")(Workflow(name="outer", entrypoint="make", templates=[make, sharing("other")]))
    assert templates(outer)["make"]["resource"]["manifest"] == alone
    assert policy_of(outer) == {"other": LOW}


def test_the_same_kind_twice_on_one_workflow_is_refused():
    nightly = defaults(priority="low")(Workflow(name="nightly"))
    defaults(memory="4Gi")(nightly)
    with pytest.raises(PolicyError) as caught:
        defaults(priority="high")(nightly)
    assert [problem.code for problem in caught.value.problems] == ["directive-twice"]


def test_a_workflow_template_submitted_as_a_workflow_keeps_its_policies_inside_a_block():
    submitted = []

    class Service:
        def create_workflow(self, request, namespace):
            submitted.append(request.workflow)
            return request.workflow

    service = WorkflowsService(host="http://localhost")
    service.create_workflow = Service().create_workflow
    with defaults(priority="low", memory="4Gi"):
        nightly = WorkflowTemplate(
            name="nightly", namespace="ml", entrypoint="train", templates=[sharing(), a_container("report")],
            workflows_service=service,
        )  # fmt: skip
        nightly.create_as_workflow(generate_name="nightly-")
    expected = nightly.to_dict()["spec"]["templates"]
    assert submitted[0].model_dump(exclude_none=True, by_alias=True)["spec"]["templates"] == expected


def test_no_warning_where_everything_is_reached(policy_of):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with defaults(priority="low"), Workflow(name="nightly", entrypoint="all") as nightly, Steps(name="all"):
            train()
        policy_of(nightly)
