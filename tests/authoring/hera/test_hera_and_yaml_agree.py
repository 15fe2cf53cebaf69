"""What decorators make of a workflow is what `pillion compile` makes of its YAML with annotations, and checks clean."""

import pytest
from hera.workflows import (
    Container,
    ContainerNode,
    ContainerSet,
    CronWorkflow,
    RetryStrategy,
    Script,
    Step,
    Steps,
    Workflow,
    models,
)

from pillion import PolicyError, gpu_share, priority
from pillion.authoring.hera import compile_workflow
from pillion.authoring.manifests.compile import compile_text
from pillion.check import check_text

# How a policy is said with decorators, and by hand.
POLICIES = [
    ([gpu_share(0.5)], {"share": "0.5"}),
    ([gpu_share("500m", limit="750m", memory="8Gi", container="main")],
     {"share": "500m", "limit": "750m", "memory": "8Gi", "container": "main"}),
    ([gpu_share(0.8), priority("high", max_slowdown="2%", max_stall="5ms")],
     {"share": "0.8", "priority": "high", "max-slowdown": "2%", "max-stall": "5ms"}),
    ([gpu_share(memory="4Gi"), priority("low", on_preempt="evict")],
     {"memory": "4Gi", "priority": "low", "on-preempt": "evict"}),
    ([gpu_share("{{inputs.parameters.share}}", memory="1Gi"), priority("{{inputs.parameters.tier}}")],
     {"share": "{{inputs.parameters.share}}", "memory": "1Gi", "priority": "{{inputs.parameters.tier}}"}),
]  # fmt: skip
INPUTS = [models.Parameter(name="share", value="0.5"), models.Parameter(name="tier", value="low")]
NODES = [ContainerNode(name="main", image="i", command=["sh"]), ContainerNode(name="view", image="i", command=["sh"])]
TEMPLATES = [
    lambda **more: Container(name="train", image="i", command=["train"], inputs=list(INPUTS), **more),
    lambda **more: Script(name="train", image="i", command=["python"], source="print()", inputs=list(INPUTS), **more),
    lambda **more: ContainerSet(name="train", image="i", containers=NODES, inputs=list(INPUTS), **more),
]
SETTINGS = [
    {},
    {"labels": {"app": "train"}, "annotations": {"team": "vision"}},
    {"retry_strategy": RetryStrategy(limit="2", retry_policy="Always")},
    {"priority_class_name": "pillion-low"},
]


def workflow_of(template):
    calls = Steps(name="all", sub_steps=[Step(name="first", template="train")])
    return CronWorkflow(name="nightly", entrypoint="all", schedules=["0 1 * * *"], templates=[calls, template])


@pytest.mark.parametrize("settings", SETTINGS, ids=["plain", "metadata", "retries", "class"])
@pytest.mark.parametrize("make", TEMPLATES, ids=["container", "script", "set"])
@pytest.mark.parametrize(("directives", "by_hand"), POLICIES, ids=["share", "all", "high", "evict", "parameters"])
def test_the_same_policy_said_in_either_way(directives, by_hand, make, settings):
    decorated = make(**settings)
    for directive in directives:
        directive(decorated)
    ours = compile_workflow(workflow_of(decorated))

    annotations = {**settings.get("annotations", {}), **{f"pillion.dev/{term}": text for term, text in by_hand.items()}}
    plain = workflow_of(make(**{**settings, "annotations": annotations})).to_yaml()
    from_yaml = compile_text(plain, "nightly.yaml")
    assert CronWorkflow.from_yaml(from_yaml.text).to_yaml() == ours

    assert compile_text(ours, "nightly.yaml").text == ours
    assert check_text(ours, "nightly.yaml") == []


@pytest.mark.parametrize(
    ("directive", "more"),
    [
        (gpu_share("{{inputs.parameters.other}}"), {}),
        (gpu_share("{{item.share}}"), {}),
        (gpu_share(0.5, container="view"), {}),
        (
            gpu_share(0.5),
            {"resources": models.ResourceRequirements(limits={"nvidia.com/gpu": models.Quantity(root="1")})},
        ),
        (gpu_share(0.5), {"labels": {"pillion.dev/managed": "false"}}),
        (priority("low"), {}),
        (priority("high"), {}),
    ],
)
def test_the_same_mistake_has_the_same_code(directive, more):
    template = directive(TEMPLATES[0](**more))
    with pytest.raises(PolicyError) as caught:
        workflow_of(template).build()
    found = {problem.code for problem in caught.value.problems}

    terms = {f"pillion.dev/{name}": text for name, text in _said(directive).items()}
    labels = {"pillion.dev/managed": "true", **more.pop("labels", {})}
    plain = TEMPLATES[0](annotations=terms, labels=labels, **more)
    checked = check_text(Workflow(name="nightly", entrypoint="train", templates=[plain]).to_yaml(), "nightly.yaml")
    assert {finding.problem.code for finding in checked if finding.severity == "error"} == found


def _said(directive):
    terms = directive.directive.terms
    values = {"share": terms.share_milli, "priority": terms.tier, "container": terms.container}
    texts = {
        name: getattr(value, "text", None) or getattr(value, "value", value) for name, value in values.items() if value
    }
    return {name: "0.5" if text == 500 else text for name, text in texts.items()}
