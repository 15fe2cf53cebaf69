"""A decorated template differs from a plain one in its annotations, label, priority class and retries, nowhere else."""

import copy

import pytest
from hera.workflows import Container, ContainerNode, ContainerSet, Script, UserContainer, Workflow
from hypothesis import given
from hypothesis import strategies as st

from pillion import defaults, gpu_share, priority

LABEL = {"pillion.dev/managed": "true"}


def a_container(**more):
    return Container(name="train", image="trainer:1", command=["python", "train.py"], **more)


def a_script(**more):
    return Script(name="train", image="trainer:1", source="print('training')", **more)


def a_container_set(**more):
    nodes = [ContainerNode(name="fetch", image="fetcher:1"), ContainerNode(name="main", image="trainer:1")]
    return ContainerSet(name="train", image="unused:1", containers=nodes, **more)


KINDS = pytest.mark.parametrize("make", [a_container, a_script, a_container_set])


def workflow_of(*templates):
    return Workflow(name="nightly", entrypoint="train", templates=list(templates))


def test_a_whole_workflow(build):
    train = priority("low", on_preempt="evict")(gpu_share(0.5, memory="8Gi")(a_container()))
    assert build(workflow_of(train)) == {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "nightly"},
        "spec": {
            "entrypoint": "train",
            "templates": [
                {
                    "name": "train",
                    "container": {"image": "trainer:1", "command": ["python", "train.py"]},
                    "metadata": {
                        "annotations": {
                            "pillion.dev/memory": "8Gi",
                            "pillion.dev/on-preempt": "evict",
                            "pillion.dev/priority": "low",
                            "pillion.dev/share": "0.5",
                        },
                        "labels": LABEL,
                    },
                    "priorityClassName": "pillion-low",
                    "retryStrategy": {"limit": "5", "retryPolicy": "Always"},
                }
            ],
        },
    }


@KINDS
def test_every_template_that_runs_the_authors_containers_takes_a_policy(make, build):
    plain = build(workflow_of(make()))
    decorated = build(workflow_of(gpu_share("500m", limit=0.75)(priority("high", max_slowdown="2%")(make()))))
    (template,) = plain["spec"]["templates"]
    template["metadata"] = {
        "annotations": {
            "pillion.dev/limit": "0.75",
            "pillion.dev/max-slowdown": "2%",
            "pillion.dev/priority": "high",
            "pillion.dev/share": "0.5",
        },
        "labels": LABEL,
    }
    template["priorityClassName"] = "pillion-high"
    assert decorated == plain


def test_decorating_returns_the_authors_own_object():
    train = a_container()
    assert gpu_share(0.5)(train) is train


def test_a_template_made_inside_a_workflow_is_decorated_where_it_stands(policy_of):
    with Workflow(name="nightly", entrypoint="train") as nightly:
        gpu_share(0.5)(a_container())
    assert policy_of(nightly) == {"train": ({"priority": "normal", "share": "0.5"}, "pillion-normal", None)}


@pytest.mark.parametrize(
    ("directive", "retries"),
    [
        (priority("low"), None),
        (priority("low", on_preempt="wait"), None),
        (priority("low", on_preempt="suspend"), {"limit": "5", "retryPolicy": "Always"}),
        (priority("low", on_preempt="evict"), {"limit": "5", "retryPolicy": "Always"}),
        (priority("low", on_preempt="evict", retries=9), {"limit": "9", "retryPolicy": "Always"}),
        (priority("low", on_preempt="evict", retries=0), None),
        (priority("high", retries=2), {"limit": "2", "retryPolicy": "Always"}),
    ],
)
def test_steps_that_may_lose_their_pod_are_retried(directive, retries, policy_of):
    train = directive(gpu_share(0.5, memory="1Gi")(a_container()))
    assert policy_of(workflow_of(train))["train"][2] == retries


@pytest.mark.parametrize("name", ["logger", "setup", "main"])
def test_the_gpu_goes_to_the_container_that_is_named(name, templates):
    train = a_container(
        sidecars=UserContainer(name="logger", image="logger:1"),
        init_containers=[UserContainer(name="setup", image="i")],
    )
    (template,) = templates(workflow_of(gpu_share(0.5, container=name)(train))).values()
    assert template["metadata"]["annotations"]["pillion.dev/container"] == name
    assert template["sidecars"] == [{"name": "logger", "image": "logger:1"}]
    assert template["initContainers"] == [{"name": "setup", "image": "i"}]


def test_a_container_of_a_set_can_be_named(policy_of):
    nodes = [ContainerNode(name="fetch", image="fetcher:1"), ContainerNode(name="learn", image="trainer:1")]
    pair = gpu_share(0.5, container="learn")(ContainerSet(name="train", containers=nodes))
    assert policy_of(workflow_of(pair))["train"][0] == {"container": "learn", "priority": "normal", "share": "0.5"}


def test_building_one_workflow_changes_no_other_that_holds_the_same_template(build):
    train = gpu_share(0.5)(a_container())
    first, second = workflow_of(train), Workflow(name="nightly", entrypoint="train", templates=[train])
    before = copy.deepcopy(vars(train))
    once = build(first)
    assert build(second) == once
    assert vars(train) == before


SHARES = st.integers(min_value=10, max_value=1000)
NAMES = st.from_regex(r"[a-z]{1,8}(\.example)?/[a-z]{1,8}", fullmatch=True)
TEXTS = st.dictionaries(NAMES, st.text(max_size=20), max_size=3)


@given(
    milli=SHARES,
    tier=st.sampled_from(["high", "normal", "low"]),
    on_preempt=st.sampled_from([None, "wait", "suspend", "evict"]),
    retries=st.one_of(st.none(), st.integers(1, 1000)),
    annotations=TEXTS,
    labels=TEXTS,
)
def test_any_policy_beside_any_metadata(milli, tier, on_preempt, retries, annotations, labels):
    def made():
        return a_container(annotations=annotations or None, labels=labels or None, pod_spec_patch="nodeName: here")

    plain = workflow_of(made()).to_dict()
    decorated = workflow_of(
        priority(tier, on_preempt=on_preempt, retries=retries)(gpu_share(f"{milli}m", memory="1Gi")(made()))
    ).to_dict()
    (template,) = plain["spec"]["templates"]
    said = {"pillion.dev/memory": "1Gi", "pillion.dev/priority": tier}
    said["pillion.dev/share"] = f"{milli / 1000:.3f}".rstrip("0").rstrip(".")
    if on_preempt in ("suspend", "evict"):
        said["pillion.dev/on-preempt"] = on_preempt
    template["metadata"] = {"annotations": {**annotations, **said}, "labels": {**labels, **LABEL}}
    template["priorityClassName"] = f"pillion-{tier}"
    if retries or "pillion.dev/on-preempt" in said:
        template["retryStrategy"] = {"limit": str(retries or 5), "retryPolicy": "Always"}
    assert decorated == plain


def test_the_priority_class_is_left_out_where_the_author_says_so(templates):
    with defaults(priority_class=False), Workflow(name="nightly", entrypoint="train") as nightly:
        gpu_share(0.5)(Container(name="train", image="i"))
        priority("low", priority_class=False)(gpu_share(memory="1Gi")(Container(name="other", image="i")))
        priority("high")(gpu_share(0.5)(Container(name="urgent", image="i")))
    built = templates(nightly)
    assert [built[name].get("priorityClassName") for name in ("train", "other", "urgent")] == [
        None,
        None,
        "pillion-high",
    ]
    assert built["train"]["metadata"]["annotations"] == {"pillion.dev/priority": "normal", "pillion.dev/share": "0.5"}
