"""Both decorators above `@dsl.component`: every task made from it has the policy, and the component is still itself."""

import copy
import inspect
import pickle

import pytest
from kfp import components, dsl
from kfp.dsl.container_component_class import ContainerComponent
from kfp.dsl.python_component import PythonComponent
from kfp.dsl.yaml_component import YamlComponent

from pillion import PolicyError, gpu_share, priority

LOW = {"pillion.dev/memory": "8Gi", "pillion.dev/priority": "low", "pillion.dev/share": "0.5"}


@dsl.component(base_image="python:3.11")
def train(rate: float, epochs: int = 3) -> float:
    """Train for a while."""
    return rate * epochs


@dsl.container_component
def convert(name: str, model: dsl.Output[dsl.Model]):
    """Convert a model."""
    return dsl.ContainerSpec(image="converter", command=["convert"], args=[name, "--to", model.path])


YAML = """
name: Load
inputs: [{name: path, type: String}]
outputs: [{name: data, type: Dataset}]
implementation:
  container:
    image: loader
    command: [load, {inputValue: path}, {outputPath: data}]
"""
load = components.load_component_from_text(YAML)

KINDS = [
    (train, {"rate": 0.1}, PythonComponent),
    (convert, {"name": "x"}, ContainerComponent),
    (load, {"path": "x"}, YamlComponent),
]
kinds = pytest.mark.parametrize(("component", "arguments", "kind"), KINDS, ids=["python", "container", "yaml"])


def tagged(component):
    return gpu_share(0.5, memory="8Gi")(priority("low")(component))


def pipeline_of(component, arguments):
    @dsl.pipeline(name="p")
    def p():
        component(**arguments)

    return p


@kinds
def test_only_the_policy_is_added_to_the_spec(component, arguments, kind, assert_only_policies_differ):
    label = f"exec-{component.name}"
    plain, with_policy = pipeline_of(component, arguments), pipeline_of(tagged(component), arguments)
    assert_only_policies_differ(plain, with_policy, {label: LOW})


@kinds
def test_the_order_of_the_two_does_not_matter(component, arguments, kind, compiled):
    other = priority("low")(gpu_share(0.5, memory="8Gi")(component))
    one, two = compiled(pipeline_of(tagged(component), arguments)), compiled(pipeline_of(other, arguments))
    assert one.text == two.text


@kinds
def test_the_authors_component_stays_as_it_was(component, arguments, kind, compiled):
    before, attributes = compiled(pipeline_of(component, arguments)).text, dict(vars(component))
    compiled(pipeline_of(tagged(component), arguments))
    assert type(component) is kind
    assert vars(component) == attributes
    assert compiled(pipeline_of(component, arguments)).text == before


@kinds
def test_a_tagged_component_is_the_same_to_whoever_asks(component, arguments, kind):
    copy_ = tagged(component)
    assert isinstance(copy_, kind)
    assert type(copy_).__name__ == kind.__name__
    assert type(copy_).__module__ == kind.__module__
    assert (copy_.name, copy_.description) == (component.name, component.description)
    assert copy_.component_spec == component.component_spec
    assert copy_.__doc__ == component.__doc__
    assert inspect.signature(copy_) == inspect.signature(component)
    assert copy_.required_inputs == component.required_inputs


def test_the_function_can_still_be_called():
    assert tagged(train).python_func is train.python_func
    assert tagged(train).execute(rate=2.0) == 6.0
    assert tagged(convert).pipeline_func is convert.pipeline_func


def test_a_wrong_argument_is_refused_as_by_kfp():
    with pytest.raises(TypeError) as with_policy:
        tagged(train)(speed=1)
    with pytest.raises(TypeError) as plain:
        train(speed=1)
    assert str(with_policy.value) == str(plain.value)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_copies_keep_the_policy(duplicate, compiled):
    again = duplicate(tagged(train))
    assert isinstance(again, PythonComponent)
    assert compiled(pipeline_of(again, {"rate": 0.1})).annotations("exec-train") == LOW


def test_pickles_keep_the_policy(compiled):
    # As they come from kfp, components hold a protobuf message that cannot be pickled.
    spec = copy.copy(load.component_spec)
    spec.platform_spec = None
    again = pickle.loads(pickle.dumps(tagged(YamlComponent(component_spec=spec, component_yaml=YAML))))
    assert isinstance(again, YamlComponent)
    assert compiled(pipeline_of(again, {"path": "x"})).annotations("exec-load") == LOW


def test_the_same_decorator_twice_is_an_error():
    with pytest.raises(PolicyError, match=r"gpu_share\(0.5\) is applied where gpu_share\(0.25\) already is") as caught:
        gpu_share(0.5)(gpu_share(0.25)(train))
    assert [problem.code for problem in caught.value.problems] == ["directive-twice"]
    assert caught.value.problems[0].where == 'component "train"'


def test_one_component_can_be_the_base_of_several(compiled):
    quarter, half = gpu_share(0.25)(train), gpu_share(0.5)(train)

    @dsl.pipeline(name="p")
    def p():
        quarter(rate=0.1)
        half(rate=0.1)
        train(rate=0.1)

    found = compiled(p)
    assert {label: found.annotations(label) for label in found.executors} == {
        "exec-train": {"pillion.dev/priority": "normal", "pillion.dev/share": "0.25"},
        "exec-train-2": {"pillion.dev/priority": "normal", "pillion.dev/share": "0.5"},
        "exec-train-3": {},
    }


def test_caching_is_the_authors(assert_only_policies_differ):
    def build(component):
        @dsl.pipeline(name="p")
        def p():
            component(rate=0.1).set_caching_options(False)
            component(rate=0.2).set_caching_options(True, cache_key="mine")

        return p

    found = assert_only_policies_differ(build(train), build(tagged(train)), {"exec-train": LOW, "exec-train-2": LOW})
    tasks = found.pipeline["root"]["dag"]["tasks"]
    assert tasks["train"]["cachingOptions"] == {}
    assert tasks["train-2"]["cachingOptions"] == {"enableCache": True, "cacheKey": "mine"}
