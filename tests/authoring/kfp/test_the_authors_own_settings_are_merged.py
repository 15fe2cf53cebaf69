"""What the author sets on a task with KFP's own functions stays beside the policy; what contradicts it is an error."""

import pytest
from kfp import dsl, kubernetes
from kfp.dsl import TaskConfigField, TaskConfigPassthrough

from pillion import PolicyError, gpu_share, priority

LOW = {"pillion.dev/memory": "8Gi", "pillion.dev/priority": "low", "pillion.dev/share": "0.5"}


@dsl.component(base_image="python:3.11")
def train(): ...


def tag(task):
    return gpu_share(0.5, memory="8Gi")(priority("low")(task))


def build(*steps):
    """Make a pipeline of one task, to which each of `steps` does something in turn."""

    @dsl.pipeline(name="p")
    def p():
        task = train()
        for step in steps:
            step(task)

    return p


def furnish(task):
    kubernetes.add_pod_annotation(task, "team.example/owner", "vision")
    kubernetes.add_pod_label(task, "team", "vision")
    kubernetes.add_node_selector(task, "nvidia.com/gpu.product", "NVIDIA-H100")
    kubernetes.add_toleration(task, key="nvidia.com/gpu", operator="Exists")
    kubernetes.mount_pvc(task, pvc_name="data", mount_path="/data")
    task.set_env_variable("MODE", "fast").set_cpu_limit("2").set_memory_limit("4Gi")


def as_kfp_kubernetes_does(task):
    """The same policy, said with KFP's own functions."""
    for key, value in LOW.items():
        kubernetes.add_pod_annotation(task, key, value)
    kubernetes.add_pod_label(task, "pillion.dev/managed", "true")


@pytest.mark.parametrize("steps", [(furnish, tag), (tag, furnish)], ids=["before", "after"])
def test_other_settings_stay(steps, assert_only_policies_differ):
    assert_only_policies_differ(build(furnish), build(*steps), {"exec-train": LOW})


@pytest.mark.parametrize("steps", [(tag,), (furnish, tag)], ids=["alone", "with others"])
def test_annotations_are_what_kfp_kubernetes_would_have_written(steps, compiled, hash_of):
    def by_hand(task):
        as_kfp_kubernetes_does(task)
        task.set_env_variable("PILLION_POLICY_HASH", hash_of(LOW))

    others = tuple(step for step in steps if step is not tag)
    assert compiled(build(*steps)).text == compiled(build(*others, by_hand)).text


@pytest.mark.parametrize(
    "steps", [(as_kfp_kubernetes_does, tag), (tag, as_kfp_kubernetes_does)], ids=["before", "after"]
)
def test_the_same_annotations_by_hand_do_no_harm(steps, compiled):
    assert compiled(build(*steps)).text == compiled(build(tag)).text


@pytest.mark.parametrize(
    ("function", "key", "value", "expected"),
    [
        (kubernetes.add_pod_annotation, "pillion.dev/share", "0.75", '"0.5"'),
        (kubernetes.add_pod_annotation, "pillion.dev/limit", "0.75", "nothing of the kind"),
        (kubernetes.add_pod_annotation, "pillion.dev/sahre", "0.5", "nothing of the kind"),
        (kubernetes.add_pod_label, "pillion.dev/managed", "false", '"true"'),
    ],
)
@pytest.mark.parametrize("order", ["before", "after"])
def test_other_annotations_of_ours_by_hand_are_an_error(function, key, value, expected, order):
    def by_hand(task):
        function(task, key, value)

    with pytest.raises(PolicyError) as caught:
        build(*((by_hand, tag) if order == "before" else (tag, by_hand)))
    (problem,) = caught.value.problems
    assert (problem.code, problem.key) == ("annotation-differs", key)
    assert problem.what == f'{key} is set to "{value}" by hand'
    assert problem.allowed == f"the step's gpu_share and priority say {expected}"


def test_annotations_by_hand_alone_are_no_policy(compiled):
    compiled(build(tag))
    with pytest.raises(PolicyError, match="if you annotated the step by hand, use gpu_share and priority") as caught:
        build(as_kfp_kubernetes_does)
    assert [(problem.code, problem.where) for problem in caught.value.problems] == [
        ("kfp-policy-leak", 'executor "exec-train"')
    ]


WHOLE_GPUS = {
    "type": lambda task: task.set_accelerator_type("nvidia.com/gpu"),
    "type and limit": lambda task: task.set_accelerator_type("nvidia.com/gpu").set_accelerator_limit(2),
    "limit alone": lambda task: task.set_accelerator_limit(1),
    "older names": lambda task: task.add_node_selector_constraint("NVIDIA_TESLA_K80").set_gpu_limit("1"),
    "slice": lambda task: task.set_accelerator_type("nvidia.com/mig-1g.5gb"),
    "slice of time": lambda task: task.set_accelerator_type("nvidia.com/gpu.shared"),
    "another maker": lambda task: task.set_accelerator_type("amd.com/gpu"),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("ask", WHOLE_GPUS.values(), ids=WHOLE_GPUS.keys())
@pytest.mark.parametrize("order", ["before", "after"])
def test_a_step_cannot_both_share_a_gpu_and_have_one(ask, order):
    with pytest.raises(PolicyError, match="a step shares one GPU or owns whole ones") as caught:
        build(*((ask, tag) if order == "before" else (tag, ask)))
    assert [problem.code for problem in caught.value.problems] == ["whole-gpu"]


def test_an_accelerator_that_is_chosen_when_the_pipeline_runs_is_refused():
    with pytest.raises(PolicyError, match="owns whole ones"):

        @dsl.pipeline(name="p")
        def p(kind: str = "nvidia.com/gpu"):
            tag(train()).set_accelerator_type(kind)


@pytest.mark.parametrize(
    "ask",
    [
        lambda task: task.set_accelerator_type("rdma/hca"),
        lambda task: task.set_accelerator_type("nvidia.com/gpu").set_accelerator_limit(0),
        lambda task: task.set_accelerator_limit(0),
        lambda task: task.set_cpu_limit("2"),
    ],
    ids=["other device", "none of them", "none of any", "no device"],
)
def test_what_is_no_gpu_may_stand_beside_a_share(ask, compiled):
    assert compiled(build(tag, ask)).annotations("exec-train") == LOW


def test_a_step_without_policy_may_have_whole_gpus(compiled):
    compiled(build(tag))
    found = compiled(build(WHOLE_GPUS["type and limit"]))
    assert found.executors["exec-train"]["container"]["resources"]["accelerator"]["resourceCount"] == "2"


def launcher(*passthroughs):
    @dsl.component(base_image="python:3.11", task_config_passthroughs=list(passthroughs))
    def launch(config: dsl.TaskConfig): ...

    return gpu_share(0.5, memory="8Gi")(priority("low")(launch))


def pipeline_of(component):
    @dsl.pipeline(name="p")
    def p():
        component()

    return p


@pytest.mark.parametrize(
    "passthroughs",
    [(TaskConfigField.RESOURCES,), (TaskConfigField.ENV,), (TaskConfigPassthrough(TaskConfigField.ENV),)],
    ids=["resources", "env", "env by its long name"],
)
def test_a_component_that_hands_its_environment_on_is_refused(passthroughs, compiled):
    with pytest.raises(PolicyError, match="apply_to_task=True") as caught:
        pipeline_of(launcher(*passthroughs))
    with pytest.raises(PolicyError, match="apply_to_task=True"):
        compiled(launcher(*passthroughs))
    assert [problem.code for problem in caught.value.problems] == ["kfp-passthrough"]


def test_a_component_that_keeps_its_environment_as_well_is_not(compiled):
    component = launcher(TaskConfigPassthrough(TaskConfigField.ENV, apply_to_task=True))
    assert compiled(pipeline_of(component)).annotations("exec-launch") == LOW
