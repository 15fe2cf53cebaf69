"""A tagged component that is compiled without a pipeline keeps its policy, which plain KFP would leave out."""

import pytest
from kfp import components, dsl

from pillion import PolicyError, gpu_share, priority

LOW = {"pillion.dev/memory": "8Gi", "pillion.dev/on-preempt": "evict", "pillion.dev/priority": "low"}


@dsl.component(base_image="python:3.11")
def train(rate: float = 0.1) -> float:
    """Train for a while."""
    return rate


@dsl.container_component
def convert(name: str, model: dsl.Output[dsl.Model]):
    return dsl.ContainerSpec(image="converter", args=[name, model.path])


def tag(component):
    return gpu_share(memory="8Gi")(priority("low", on_preempt="evict")(component))


@pytest.mark.parametrize("component", [train, convert], ids=["python", "container"])
def test_only_the_policy_is_added(component, assert_only_policies_differ):
    label = f"exec-{component.name}"
    assert_only_policies_differ(component, tag(component), {label: LOW}, {label: 5})


def test_from_below_the_decorator_as_well(compiled):
    @dsl.component(base_image="python:3.11")
    @gpu_share(memory="8Gi")
    @priority("low", on_preempt="evict")
    def evaluate(): ...

    assert compiled(evaluate).annotations("exec-evaluate") == LOW


def test_a_component_from_a_file(compiled, assert_only_policies_differ):
    loaded = components.load_component_from_text(compiled(train).text)
    assert_only_policies_differ(loaded, tag(loaded), {"exec-train": LOW}, {"exec-train": 5})


def test_a_component_from_a_file_that_had_another_policy(compiled):
    loaded = components.load_component_from_text(compiled(tag(train)).text)
    again = compiled(gpu_share(0.5)(loaded))
    assert again.annotations("exec-train") == {"pillion.dev/priority": "normal", "pillion.dev/share": "0.5"}
    variables = again.executors["exec-train"]["container"]["env"]
    assert [variable["name"] for variable in variables] == ["PILLION_POLICY_HASH"]


def test_compiling_it_changes_nothing_about_it(compiled):
    tagged = tag(train)
    assert compiled(tagged).text == compiled(tagged).text
    assert compiled(train).platform == {}


def test_an_incomplete_policy_is_refused(compiled):
    with pytest.raises(PolicyError, match='component "train": a low step says no memory'):
        compiled(priority("low")(train))
