"""Argo has no policy of one call; a parameter of the template is how calls differ."""

import pytest
from hera.expr import g
from hera.workflows import DAG, Container, Parameter, Script, Steps, Workflow, script
from hypothesis import given
from hypothesis import strategies as st

from pillion import PolicyError, gpu_share, priority


def a_container(*inputs):
    return Container(name="train", image="i", inputs=[Parameter(name=name) for name in inputs])


def workflow_of(template):
    return Workflow(name="nightly", entrypoint="train", templates=[template])


def share_of(template):
    (built,) = workflow_of(template).to_dict()["spec"]["templates"]
    return built["metadata"]["annotations"]["pillion.dev/share"]


def problems_of(template):
    with pytest.raises(PolicyError) as caught:
        workflow_of(template).build()
    return [(problem.code, problem.key) for problem in caught.value.problems]


def test_two_calls_with_shares_of_their_own(build):
    train = gpu_share("{{inputs.parameters.share}}", memory="8Gi")(a_container("share"))
    with Workflow(name="nightly", entrypoint="all") as nightly, Steps(name="all"):
        train(name="large", arguments={"share": "0.75"})
        train(name="small", arguments={"share": "0.25"})

    def step(name, share):
        return {"name": name, "template": "train", "arguments": {"parameters": [{"name": "share", "value": share}]}}

    assert build(nightly)["spec"] == {
        "entrypoint": "all",
        "templates": [
            {"name": "all", "steps": [[step("large", "0.75")], [step("small", "0.25")]]},
            {
                "name": "train",
                "container": {"image": "i"},
                "inputs": {"parameters": [{"name": "share"}]},
                "metadata": {
                    "annotations": {
                        "pillion.dev/memory": "8Gi",
                        "pillion.dev/priority": "normal",
                        "pillion.dev/share": "{{inputs.parameters.share}}",
                    },
                    "labels": {"pillion.dev/managed": "true"},
                },
                "priorityClassName": "pillion-normal",
            },
        ],
    }


def test_a_tier_that_is_known_at_run_time_gets_its_priority_class_then(policy_of):
    train = priority("{{inputs.parameters.tier}}")(gpu_share(0.5)(a_container("tier")))
    assert policy_of(workflow_of(train)) == {
        "train": ({"priority": "{{inputs.parameters.tier}}", "share": "0.5"}, None, None)
    }


def test_a_functions_own_arguments_are_input_parameters(policy_of):
    @gpu_share("{{inputs.parameters.fraction}}")
    @script(image="i")
    def train(fraction: float = 0.5):
        print(fraction)

    with Workflow(name="nightly", entrypoint="train") as nightly:
        train()
    assert policy_of(nightly)["train"][0] == {"priority": "normal", "share": "{{inputs.parameters.fraction}}"}


def test_heras_own_ways_to_name_a_parameter():
    train = a_container("share")
    train.inputs[0].default = "0.5"
    assert share_of(gpu_share(train.get_parameter("share"))(train)) == "{{inputs.parameters.share}}"
    assert share_of(gpu_share(g.inputs.parameters.share)(a_container("share"))) == "{{=inputs.parameters.share}}"
    assert share_of(gpu_share(f"{g.inputs.parameters.share:$}")(a_container("share"))) == "{{inputs.parameters.share}}"
    named = g.inputs.parameters["my-share"]
    assert share_of(gpu_share(named)(a_container("my-share"))) == "{{=inputs.parameters['my-share']}}"


def test_a_parameter_of_the_workflow(policy_of):
    train = gpu_share("{{workflow.parameters.share}}")(Container(name="train", image="i"))
    nightly = Workflow(name="nightly", entrypoint="train", arguments={"share": "0.5"}, templates=[train])
    assert policy_of(nightly)["train"][0]["share"] == "{{workflow.parameters.share}}"


@pytest.mark.parametrize("declaration", [Parameter(name="share"), Parameter(name="share", value="0.5")])
def test_the_declaration_of_a_parameter_is_not_its_value(declaration):
    with pytest.raises(PolicyError, match=r"pass that as text, or template.get_parameter\(\"share\"\)") as caught:
        gpu_share(declaration)
    assert [problem.code for problem in caught.value.problems] == ["parameter-declaration"]


@pytest.mark.parametrize(
    "text",
    [
        "{{inputs.parameters.share}}",
        "{{ inputs.parameters.share }}",
        "{{=inputs.parameters.share}}",
        "{{=inputs.parameters['share']}}",
        '{{=asFloat(inputs.parameters["share"]) / 2}}',
        "0.{{inputs.parameters.share}}",
    ],
)
def test_a_parameter_that_the_template_does_not_declare_is_refused(text):
    assert problems_of(gpu_share(text)(a_container("size"))) == [("unknown-parameter", "pillion.dev/share")]
    assert problems_of(gpu_share(text)(a_container())) == [("unknown-parameter", "pillion.dev/share")]
    assert share_of(gpu_share(text)(a_container("share"))) == text


@pytest.mark.parametrize(
    "text",
    [
        "{{item}}",
        "{{item.share}}",
        "{{steps.ask.outputs.result}}",
        "{{tasks.ask.outputs.parameters.share}}",
        "{{=item.share}}",
    ],
)
def test_what_only_the_caller_knows_is_refused(text):
    template = gpu_share(text)(a_container("share"))
    with pytest.raises(PolicyError, match="only the caller of the template knows"):
        workflow_of(template).build()


@pytest.mark.parametrize(
    "text",
    [
        "{{inputs.parameters.steps}}",
        "{{workflow.parameters.item}}",
        "{{workflow.parameters.my-item}}",
        "{{=inputs.parameters.item}}",
    ],
)
def test_words_that_only_look_like_the_callers_are_fine(text):
    assert share_of(gpu_share(text)(a_container("steps", "item"))) == text


def test_the_result_of_another_task_has_to_be_passed_as_an_argument(policy_of):
    ask = Script(name="ask", image="i", source="print(0.5)")
    train = gpu_share("{{inputs.parameters.share}}")(a_container("share"))
    with Workflow(name="nightly", entrypoint="all") as nightly, DAG(name="all"):
        asked = ask()
        asked >> train(arguments={"share": asked.result})
    assert policy_of(nightly)["train"][0]["share"] == "{{inputs.parameters.share}}"


NAMES = st.from_regex(r"[a-zA-Z][-_a-zA-Z0-9]{0,20}", fullmatch=True)


@given(used=NAMES, declared=st.sets(NAMES, max_size=3))
def test_exactly_the_declared_parameters_are_known(used, declared):
    template = gpu_share(f"{{{{inputs.parameters.{used}}}}}")(a_container(*declared))
    if used in declared:
        assert share_of(template) == f"{{{{inputs.parameters.{used}}}}}"
    else:
        assert problems_of(template) == [("unknown-parameter", "pillion.dev/share")]
