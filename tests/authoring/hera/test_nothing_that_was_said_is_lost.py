"""Where Hera or Argo has no place for what was said, building fails, or warns where the place is out of reach."""

import pytest
from hera.workflows import DAG, Container, Script, Step, Steps, Task, Workflow, models, script

from pillion import PolicyError, defaults, gpu_share, priority
from pillion.policy import PolicyWarning


def sharing(name="train"):
    return gpu_share(0.5, memory="1Gi")(Container(name=name, image="i"))


def refused(workflow):
    with pytest.raises(PolicyError) as caught:
        workflow.build()
    (problem,) = caught.value.problems
    return problem


def test_a_template_decorated_after_its_first_call():
    train = Container(name="train", image="i")
    with Workflow(name="nightly", entrypoint="all") as nightly, Steps(name="all"):
        train(name="first")
    gpu_share(0.5)(train)
    problem = refused(nightly)
    assert (problem.code, problem.where) == ("policy-lost", 'call "first" in template "all"')
    assert problem.what == (
        'its template "train" says gpu_share(0.5), but the one of this name in the workflow says nothing'
    )
    assert "before the first call" in problem.fix


def test_a_workflows_own_copy_may_still_be_decorated(policy_of):
    train = Container(name="train", image="i")
    with Workflow(name="nightly", entrypoint="all") as nightly, Steps(name="all"):
        train(name="first")
    gpu_share(0.5)(nightly.templates[1])
    assert policy_of(nightly)["train"][0] == {"priority": "normal", "share": "0.5"}


def test_two_templates_of_one_name():
    large = gpu_share(0.75)(Container(name="train", image="i"))
    small = gpu_share(0.25)(Container(name="train", image="i"))
    with Workflow(name="nightly", entrypoint="all") as nightly, DAG(name="all"):
        large(name="first") >> small(name="second")
    problem = refused(nightly)
    assert (problem.code, problem.where) == ("policy-lost", 'call "second" in template "all"')


def test_two_scripts_of_one_name():
    @script(name="train", image="i")
    @gpu_share(0.75)
    def large():
        pass

    @script(name="train", image="i")
    @gpu_share(0.25)
    def small():
        pass

    with Workflow(name="nightly", entrypoint="all") as nightly, Steps(name="all"):
        large(name="first")
        small(name="second")
    assert refused(nightly).code == "policy-lost"


def test_calls_of_one_template_in_blocks_of_different_defaults():
    train = sharing()
    with Workflow(name="nightly", entrypoint="all") as nightly, Steps(name="all"):
        with defaults(priority="low"):
            train(name="first")
        with defaults(priority="high"):
            train(name="second")
    problem = refused(nightly)
    assert (problem.code, problem.where) == ("calls-differ", 'template "train"')
    assert "priority('high')" in problem.what
    assert "priority('low')" in problem.what


def test_one_call_inside_and_one_outside_of_a_block():
    train = sharing()
    with Workflow(name="nightly", entrypoint="all") as nightly, Steps(name="all"):
        train(name="first")
        with defaults(priority="high"):
            train(name="second")
    assert refused(nightly).code == "calls-differ"


def test_calls_that_refer_to_a_template_by_its_name(policy_of):
    with (
        Workflow(name="nightly", entrypoint="all", templates=[sharing()]) as nightly,
        DAG(name="all"),
        defaults(priority="low"),
    ):
        Task(name="first", template="train")
    assert policy_of(nightly)["train"][1] == "pillion-low"


def test_blocks_that_differ_only_in_what_the_template_says_itself(policy_of):
    train = priority("low")(sharing())
    with Workflow(name="nightly", entrypoint="all") as nightly, Steps(name="all"):
        train(name="first")
        with defaults(priority="high"):
            train(name="second")
    assert policy_of(nightly)["train"][1] == "pillion-low"


def test_a_block_around_the_call_of_a_dag():
    train = sharing()
    with Workflow(name="nightly", entrypoint="all") as nightly:
        with DAG(name="inner") as inner:
            train()
        with Steps(name="all"), defaults(priority="low"):
            inner(name="nested")
    problem = refused(nightly)
    assert (problem.code, problem.where) == ("defaults-out-of-reach", 'call "nested" in template "all"')


def test_a_block_around_a_dag_and_its_call(policy_of):
    train = sharing()
    with Workflow(name="nightly", entrypoint="all") as nightly, defaults(priority="low"):
        with DAG(name="inner") as inner:
            train()
        with Steps(name="all"):
            inner(name="nested")
    assert policy_of(nightly)["train"][1] == "pillion-low"


def test_a_block_around_a_call_in_an_inline_template(policy_of):
    with defaults(priority="low"):
        call = Step(name="nested", template="train")
    inline = Task(name="first", inline=Steps(sub_steps=[call]))
    nightly = Workflow(name="nightly", templates=[DAG(name="all", tasks=[inline]), sharing()])
    assert policy_of(nightly)["train"][1] == "pillion-low"


ELSEWHERE = models.TemplateRef(name="library", template="train")


def test_a_template_of_another_workflow_takes_no_defaults_from_here(build):
    def nightly():
        with Workflow(name="nightly", entrypoint="all") as workflow, DAG(name="all"):
            Task(name="first", template_ref=ELSEWHERE)
        return workflow

    plain = build(nightly())
    with pytest.warns(
        PolicyWarning, match=r'call "first" in template "all": .* "train" of "library"; apply them where'
    ):
        assert defaults(priority="low")(nightly()).to_dict() == plain
    with defaults(priority="low"):
        inside = nightly()
    with pytest.warns(PolicyWarning, match='"train" of "library"'):
        assert inside.to_dict() == plain


def test_a_workflow_that_only_refers_to_a_workflow_template(build):
    def nightly():
        return Workflow(name="nightly", workflow_template_ref=models.WorkflowTemplateRef(name="library"))

    plain = build(nightly())
    problem = refused(defaults(priority="low")(nightly()))
    assert (problem.code, problem.where) == ("defaults-out-of-reach", 'workflow "nightly"')
    with defaults(priority="low"):
        inside = nightly()
    with pytest.warns(PolicyWarning, match='do not reach the workflow template "library"'):
        assert inside.to_dict() == plain


def test_a_script_that_is_decorated_after_its_first_call_through_its_function(policy_of):
    def work():
        pass

    with Workflow(name="nightly", entrypoint="all") as nightly, Steps(name="all"):
        Script(name="train", image="i", source=work)
    gpu_share(0.5)(work)
    assert policy_of(nightly)["train"][0] == {"priority": "normal", "share": "0.5"}
