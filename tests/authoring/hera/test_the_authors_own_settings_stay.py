"""Metadata, priority class, retries and class defaults of the author's own are merged, never overwritten."""

import warnings

import pytest
from hera.shared import global_config
from hera.workflows import (
    Container,
    ContainerNode,
    ContainerSet,
    Resources,
    RetryStrategy,
    Script,
    UserContainer,
    Workflow,
    models,
)

from pillion import PolicyError, defaults, gpu_share, priority
from pillion.policy import PolicyWarning

SHARE = {"pillion.dev/priority": "normal", "pillion.dev/share": "0.5"}
LABEL = {"pillion.dev/managed": "true"}


def workflow_of(*templates, **more):
    return Workflow(name="nightly", entrypoint="train", templates=list(templates), **more)


def refused(template):
    with pytest.raises(PolicyError) as caught:
        workflow_of(template).build()
    (problem,) = caught.value.problems
    assert problem.where == f'template "{template.name}"'
    return problem


def test_annotations_and_labels_are_merged(templates):
    train = gpu_share(0.5)(Container(name="train", image="i", annotations={"team": "vision"}, labels={"app": "train"}))
    assert templates(workflow_of(train))["train"]["metadata"] == {
        "annotations": {"team": "vision", **SHARE},
        "labels": {"app": "train", **LABEL},
    }


def test_annotations_that_are_set_later_are_merged_too(templates):
    train = gpu_share(0.5)(Container(name="train", image="i"))
    train.annotations = {"team": "vision"}
    assert templates(workflow_of(train))["train"]["metadata"]["annotations"] == {"team": "vision", **SHARE}


def test_class_defaults_are_merged_and_stay_as_they_are(templates):
    mine = {"team": "vision"}
    global_config.set_class_defaults(Container, annotations=mine, priority_class_name="pillion-normal")
    train = gpu_share(0.5)(Container(name="train", image="i"))
    plain = Container(name="plain", image="i")
    built = templates(workflow_of(train, plain))
    assert built["train"]["metadata"] == {"annotations": {"team": "vision", **SHARE}, "labels": LABEL}
    assert built["plain"]["metadata"] == {"annotations": {"team": "vision"}}
    assert mine == {"team": "vision"}


def test_the_same_annotation_by_hand_is_fine_and_is_spelt_the_one_way(templates):
    by_hand = {"pillion.dev/share": "500m", "pillion.dev/limit": "1000m"}
    train = gpu_share(0.5, limit=1)(Container(name="train", image="i", annotations=by_hand, labels=dict(LABEL)))
    assert templates(workflow_of(train))["train"]["metadata"] == {
        "annotations": {"pillion.dev/limit": "1", **SHARE},
        "labels": LABEL,
    }


def test_annotations_by_hand_may_say_what_the_decorators_do_not(policy_of):
    by_hand = {"pillion.dev/share": "0.5", "pillion.dev/memory": "2Gi"}
    train = priority("low", on_preempt="evict")(Container(name="train", image="i", annotations=by_hand))
    assert policy_of(workflow_of(train))["train"] == (
        {"memory": "2Gi", "on-preempt": "evict", "priority": "low", "share": "0.5"},
        "pillion-low",
        {"limit": "5", "retryPolicy": "Always"},
    )


def test_a_template_with_annotations_by_hand_alone_is_left_to_them(templates):
    by_hand = {"pillion.dev/share": "0.5", "pillion.dev/priority": "normal"}
    nightly = workflow_of(Container(name="train", image="i", annotations=by_hand))
    plain = {"name": "train", "container": {"image": "i"}, "metadata": {"annotations": by_hand}}
    assert templates(nightly) == {"train": plain}
    assert templates(defaults(priority="low", memory="4Gi")(nightly)) == {"train": plain}


@pytest.mark.parametrize("by_hand", [{"pillion.dev/share": "0.25"}, {"pillion.dev/limit": "0.75"}])
def test_a_different_annotation_by_hand_is_refused(by_hand):
    problem = refused(gpu_share(0.5)(Container(name="train", image="i", annotations=by_hand)))
    assert (problem.code, problem.key) == ("annotation-differs", next(iter(by_hand)))
    assert f'"{next(iter(by_hand.values()))}"' in problem.what


@pytest.mark.parametrize(
    ("by_hand", "code"), [({"pillion.dev/shares": "0.5"}, "unknown-key"), ({"pillion.dev/limit": "2"}, "limit-value")]
)
def test_wrong_annotations_by_hand_are_refused(by_hand, code):
    assert refused(gpu_share(0.5)(Container(name="train", image="i", annotations=by_hand))).code == code


def test_a_label_that_switches_management_off_is_refused():
    problem = refused(gpu_share(0.5)(Container(name="train", image="i", labels={"pillion.dev/managed": "false"})))
    assert (problem.code, problem.key) == ("label-value", "pillion.dev/managed")


def test_another_priority_class_is_kept_with_a_warning():
    train = gpu_share(0.5)(Container(name="train", image="i", priority_class_name="batch"))
    with pytest.warns(PolicyWarning, match='template "train" keeps its own priority_class_name "batch"'):
        (template,) = workflow_of(train).to_dict()["spec"]["templates"]
    assert template["priorityClassName"] == "batch"


@pytest.mark.parametrize(
    ("own", "written"), [(None, "pillion-high"), ("pillion-low", "pillion-high"), ("{{=x}}", "{{=x}}")]
)
def test_a_tiers_class_is_that_of_the_policy(own, written, templates):
    train = priority("high")(gpu_share(0.5)(Container(name="train", image="i", priority_class_name=own)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert templates(workflow_of(train))["train"]["priorityClassName"] == written


@pytest.mark.parametrize(
    "own",
    [
        RetryStrategy(limit=2),
        RetryStrategy(limit=2, retry_policy="OnFailure"),
        RetryStrategy(limit=2, retry_policy="OnError", expression="true"),
        models.RetryStrategy(limit=models.IntOrString(root=2)),
    ],
)
def test_retries_that_would_not_happen_are_kept_with_a_warning(own):
    def made():
        return Container(name="train", image="i", retry_strategy=own)

    train = priority("low", on_preempt="evict")(gpu_share(memory="1Gi")(made()))
    with pytest.warns(
        PolicyWarning, match='template "train" keeps its own retry_strategy, .* set retry_policy="Always"'
    ):
        (template,) = workflow_of(train).to_dict()["spec"]["templates"]
    (plain,) = workflow_of(made()).to_dict()["spec"]["templates"]
    assert template["retryStrategy"] == plain["retryStrategy"]


@pytest.mark.parametrize(
    "own", [RetryStrategy(limit=2, retry_policy="Always"), RetryStrategy(limit=2, expression="retries < 2")]
)
def test_retries_that_happen_need_no_warning(own, templates):
    train = Container(name="train", image="i", retry_strategy=own)
    plain = templates(workflow_of(train))["train"]["retryStrategy"]
    priority("low", on_preempt="evict")(gpu_share(memory="1Gi")(train))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert templates(workflow_of(train))["train"]["retryStrategy"] == plain


def test_retries_said_in_both_places_are_kept_with_a_warning():
    own = RetryStrategy(limit=2, retry_policy="Always")
    train = priority("low", retries=7)(gpu_share(memory="1Gi")(Container(name="train", image="i", retry_strategy=own)))
    with pytest.warns(PolicyWarning, match="retries=7 of its priority is left out"):
        (template,) = workflow_of(train).to_dict()["spec"]["templates"]
    assert template["retryStrategy"] == {"limit": 2, "retryPolicy": "Always"}


def test_the_same_retries_said_in_both_places_need_no_warning(templates):
    own = RetryStrategy(limit=2, retry_policy="Always")
    train = priority("low", retries=2)(gpu_share(memory="1Gi")(Container(name="train", image="i", retry_strategy=own)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert templates(workflow_of(train))["train"]["retryStrategy"] == {"limit": 2, "retryPolicy": "Always"}


def test_retries_of_a_step_that_keeps_its_pod_are_nobodys_business(templates):
    train = gpu_share(0.5)(Container(name="train", image="i", retry_strategy=RetryStrategy(limit=2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert templates(workflow_of(train))["train"]["retryStrategy"] == {"limit": 2}


def test_the_warning_is_at_the_authors_own_line():
    train = gpu_share(0.5)(Container(name="train", image="i", priority_class_name="batch"))
    with pytest.warns(PolicyWarning) as caught:
        workflow_of(train).to_yaml()
    assert caught[0].filename == __file__


def test_a_pod_spec_patch_and_workflow_wide_settings_are_untouched(build):
    train = Container(name="train", image="i", pod_spec_patch='{"priorityClassName": "batch"}')
    wide = {
        "pod_priority_class_name": "batch",
        "pod_metadata": models.Metadata(labels={"app": "nightly"}),
        "template_defaults": models.Template(timeout="1h"),
        "retry_strategy": RetryStrategy(limit=1),
    }
    plain = build(workflow_of(train, **wide))
    decorated = build(workflow_of(gpu_share(0.5)(train), **wide))
    (template,) = plain["spec"]["templates"]
    template.update(metadata={"annotations": SHARE, "labels": LABEL}, priorityClassName="pillion-normal")
    assert decorated == plain


@pytest.mark.parametrize(
    ("wide", "retries"),
    [
        ({"retry_strategy": RetryStrategy(limit=9, retry_policy="Always")}, None),
        ({"retry_strategy": RetryStrategy(limit=9)}, {"limit": "5", "retryPolicy": "Always"}),
        ({"retry_strategy": RetryStrategy(limit=0, retry_policy="Always")}, {"limit": "5", "retryPolicy": "Always"}),
        (
            {
                "retry_strategy": RetryStrategy(limit=9, retry_policy="Always"),
                "template_defaults": models.Template(retry_strategy=models.RetryStrategy(retry_policy="OnFailure")),
            },
            {"limit": "5", "retryPolicy": "Always"},
        ),
    ],
)
def test_retries_of_the_whole_workflow_serve_if_they_happen(wide, retries, templates):
    train = priority("low", on_preempt="evict")(gpu_share(memory="1Gi")(Container(name="train", image="i")))
    assert templates(workflow_of(train, **wide))["train"].get("retryStrategy") == retries


def test_retries_that_a_step_says_itself_are_nearer_than_the_workflows(templates):
    train = priority("low", retries=2)(gpu_share(memory="1Gi")(Container(name="train", image="i")))
    nightly = workflow_of(train, retry_strategy=RetryStrategy(limit=9, retry_policy="Always"))
    assert templates(nightly)["train"]["retryStrategy"] == {"limit": "2", "retryPolicy": "Always"}


def test_annotations_of_the_whole_workflow_by_hand_are_the_farthest_default(policy_of):
    def low(**more):
        said = models.Metadata(annotations={"pillion.dev/priority": "low", "pillion.dev/memory": "4Gi"})
        templates = [
            gpu_share(0.5, memory="1Gi")(Container(name="train", image="i")),
            Container(name="other", image="i"),
        ]
        return workflow_of(*templates, pod_metadata=said, **more)

    train = {"memory": "1Gi", "priority": "low", "share": "0.5"}
    assert policy_of(low()) == {"train": (train, "pillion-low", None)}
    nearer = models.Template(metadata=models.Metadata(annotations={"pillion.dev/priority": "high"}))
    assert policy_of(low(template_defaults=nearer))["train"][1] == "pillion-high"
    assert policy_of(defaults(priority="normal", share=0.25)(low())) == {
        "train": ({**train, "priority": "normal"}, "pillion-normal", None),
        "other": ({"priority": "normal", "share": "0.25"}, "pillion-normal", None),
    }


def test_wrong_annotations_of_a_workflow_without_decorators_are_not_ours_to_refuse(build):
    wrong = models.Metadata(annotations={"pillion.dev/shares": "0.5"})
    build(workflow_of(Container(name="train", image="i"), pod_metadata=wrong))


def test_inputs_of_the_template_defaults_count_as_the_templates(policy_of):
    inputs = models.Inputs(parameters=[models.Parameter(name="share", value="0.5")])
    train = gpu_share("{{inputs.parameters.share}}")(Container(name="train", image="i"))
    nightly = workflow_of(train, template_defaults=models.Template(inputs=inputs))
    assert policy_of(nightly)["train"][0]["share"] == "{{inputs.parameters.share}}"


ONE_GPU = Resources(gpus=1)


def limits(resource, amount):
    return models.ResourceRequirements(limits={resource: models.Quantity(root=amount)})


@pytest.mark.parametrize(
    ("resources", "asked"),
    [
        (ONE_GPU, "nvidia.com/gpu 1"),
        (limits("nvidia.com/gpu", "2"), "nvidia.com/gpu 2"),
        (limits("nvidia.com/mig-1g.10gb", "1"), "nvidia.com/mig-1g.10gb 1"),
        (limits("amd.com/gpu", "1"), "amd.com/gpu 1"),
        (Resources(gpus="{{inputs.parameters.gpus}}"), "nvidia.com/gpu {{inputs.parameters.gpus}}"),
    ],
)
def test_whole_gpus_and_a_share_of_one_are_refused(resources, asked):
    for template in (
        Container(name="train", image="i", resources=resources),
        Script(name="train", image="i", source="", resources=resources),
        ContainerSet(name="train", containers=[ContainerNode(name="main", image="i", resources=resources)]),
    ):
        problem = refused(gpu_share(0.5)(template))
        assert (problem.code, problem.what) == (
            "whole-gpu",
            f'its container "main" asks for {asked} and for a share of a GPU',
        )


def test_whole_gpus_of_another_container_of_the_pod_are_its_own_business():
    def made():
        view = UserContainer(name="view", image="i", resources=ONE_GPU)
        return Container(name="train", image="i", sidecars=[view])

    workflow_of(gpu_share(0.5)(made())).build()
    assert refused(gpu_share(0.5, container="view")(made())).code == "whole-gpu"


def test_asking_for_no_whole_gpu_is_no_contradiction(policy_of):
    train = gpu_share(0.5)(Container(name="train", image="i", resources=Resources(gpus=0)))
    assert policy_of(workflow_of(train))["train"][0] == {"priority": "normal", "share": "0.5"}


def test_a_container_that_the_template_does_not_have_is_refused():
    train = Container(name="train", image="i", sidecars=[UserContainer(name="logger", image="i")])
    problem = refused(gpu_share(0.5, container="trainer")(train))
    assert (problem.code, problem.allowed) == ("unknown-container", "its containers are main, logger")


def test_a_set_without_a_main_container_must_name_one():
    nodes = [ContainerNode(name="fetch", image="i"), ContainerNode(name="learn", image="i")]
    problem = refused(gpu_share(0.5)(ContainerSet(name="train", containers=nodes)))
    assert (problem.code, problem.allowed) == ("which-container", "a pod with several containers names the one")


def test_the_only_container_of_a_set_needs_no_name(policy_of):
    alone = ContainerSet(name="train", containers=[ContainerNode(name="learn", image="i")])
    assert policy_of(workflow_of(gpu_share(0.5)(alone)))["train"][0] == {"priority": "normal", "share": "0.5"}


def test_every_mistake_is_told_at_once():
    train = Container(name="train", image="i", annotations={"pillion.dev/share": "0.25"})
    with pytest.raises(PolicyError) as caught:
        workflow_of(gpu_share("{{inputs.parameters.s}}", container="trainer")(train)).build()
    assert {problem.code for problem in caught.value.problems} == {
        "annotation-differs", "unknown-container", "unknown-parameter",
    }  # fmt: skip


def test_half_a_policy_is_refused():
    assert refused(priority("low")(Container(name="train", image="i"))).code == "missing-memory"
    assert refused(priority("high")(Container(name="train", image="i"))).code == "missing-share"
