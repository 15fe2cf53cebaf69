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

from pillion import PolicyError, gpu_share, priority
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


def test_the_same_annotation_by_hand_is_fine_and_keeps_its_spelling(templates):
    by_hand = {"pillion.dev/share": "500m"}
    train = gpu_share(0.5)(Container(name="train", image="i", annotations=by_hand, labels=dict(LABEL)))
    assert templates(workflow_of(train))["train"]["metadata"] == {
        "annotations": {"pillion.dev/priority": "normal", "pillion.dev/share": "500m"},
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
    by_hand = {"pillion.dev/share": "0.5"}
    train = Container(name="train", image="i", annotations=by_hand)
    assert templates(workflow_of(train))["train"] == {
        "name": "train",
        "container": {"image": "i"},
        "metadata": {"annotations": by_hand},
    }


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
    assert (problem.code, problem.key) == ("annotation-differs", "pillion.dev/managed")


def test_another_priority_class_is_kept_with_a_warning():
    train = gpu_share(0.5)(Container(name="train", image="i", priority_class_name="batch"))
    with pytest.warns(PolicyWarning, match='template "train" keeps its own priority_class_name "batch"'):
        (template,) = workflow_of(train).to_dict()["spec"]["templates"]
    assert template["priorityClassName"] == "batch"


def test_the_tiers_own_priority_class_needs_no_warning(templates):
    train = gpu_share(0.5)(Container(name="train", image="i", priority_class_name="pillion-normal"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert templates(workflow_of(train))["train"]["priorityClassName"] == "pillion-normal"


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


def test_retries_of_a_step_that_keeps_its_pod_are_nobodys_business(templates):
    train = gpu_share(0.5)(Container(name="train", image="i", retry_strategy=RetryStrategy(limit=2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert templates(workflow_of(train))["train"]["retryStrategy"] == {"limit": 2}


def test_a_pod_spec_patch_and_workflow_wide_settings_are_untouched(build):
    train = Container(name="train", image="i", pod_spec_patch='{"priorityClassName": "batch"}')
    wide = {
        "pod_priority_class_name": "batch",
        "pod_metadata": models.Metadata(labels={"app": "nightly"}),
        "retry_strategy": RetryStrategy(limit=1),
    }
    plain = build(workflow_of(train, **wide))
    decorated = build(workflow_of(gpu_share(0.5)(train), **wide))
    (template,) = plain["spec"]["templates"]
    template.update(metadata={"annotations": SHARE, "labels": LABEL}, priorityClassName="pillion-normal")
    assert decorated == plain


ONE_GPU = Resources(gpus=1)


@pytest.mark.parametrize(
    ("template", "name"),
    [
        (Container(name="train", image="i", resources=ONE_GPU), "main"),
        (Script(name="train", image="i", source="", resources=ONE_GPU), "main"),
        (
            Container(
                name="train",
                image="i",
                resources=models.ResourceRequirements(limits={"nvidia.com/gpu": models.Quantity(root="2")}),
            ),
            "main",
        ),
        (Container(name="train", image="i", resources=Resources(gpus="{{inputs.parameters.gpus}}")), "main"),
        (Container(name="train", image="i", sidecars=UserContainer(name="view", image="i", resources=ONE_GPU)), "view"),
    ],
)
def test_whole_gpus_and_a_share_on_one_template_are_refused(template, name):
    problem = refused(gpu_share(0.5)(template))
    assert problem.code == "whole-gpu-and-share"
    assert f'container "{name}"' in problem.what


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
    assert (problem.code, problem.allowed) == ("unknown-container", "its containers are fetch, learn")


def test_every_mistake_is_told_at_once():
    train = Container(name="train", image="i", resources=ONE_GPU, annotations={"pillion.dev/share": "0.25"})
    with pytest.raises(PolicyError) as caught:
        workflow_of(gpu_share("{{inputs.parameters.s}}", container="trainer")(train)).build()
    assert {problem.code for problem in caught.value.problems} == {
        "annotation-differs", "unknown-container", "unknown-parameter", "whole-gpu-and-share",
    }  # fmt: skip


def test_half_a_policy_is_refused():
    assert refused(priority("low")(Container(name="train", image="i"))).code == "missing-memory"
    assert refused(priority("high")(Container(name="train", image="i"))).code == "missing-share"
