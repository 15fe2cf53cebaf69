"""What `pillion compile` uses: finding the pipelines of a module, and compiling one to the bytes that KFP writes."""

import pytest
from kfp import components, dsl
from kfp.compiler import Compiler

from pillion import PolicyError, gpu_share
from pillion.authoring.kfp import compile_pipeline, pipelines_in


@dsl.component(base_image="python:3.11")
def train(): ...


@dsl.component(base_image="python:3.11")
def evaluate(): ...


@dsl.pipeline(name="nightly")
def nightly():
    """Train – every night."""
    gpu_share(0.5)(train())


@dsl.pipeline(name="weekly")
def weekly():
    evaluate()


def test_the_pipelines_of_a_module_are_found_by_their_variables():
    namespace = {"dsl": dsl, "train": train, "nightly": nightly, "again": nightly, "weekly": weekly, "n": 1}
    found = pipelines_in(namespace)
    assert list(found) == ["nightly", "weekly"]
    assert found["nightly"] is nightly
    assert found["weekly"] is weekly


def test_without_a_pipeline_its_components_are():
    tagged = gpu_share(0.5)(train)
    assert pipelines_in({"train": tagged, "evaluate": evaluate, "n": 1}) == {"train": tagged, "evaluate": evaluate}
    assert pipelines_in({"n": 1}) == {}


@pytest.mark.parametrize("component", [nightly, weekly, train, gpu_share(0.5)(train)], ids=range(4))
def test_the_text_is_the_one_kfps_compiler_writes(component, tmp_path):
    path = tmp_path / "compiled.yaml"
    Compiler().compile(component, str(path))
    assert compile_pipeline(component).encode() == path.read_bytes()


def test_a_pipeline_in_which_policies_strayed_is_not_compiled():
    loaded = components.load_component_from_text(compile_pipeline(nightly).replace("0.5", "0.75"))
    with pytest.raises(PolicyError, match="another step's policy"):
        compile_pipeline(loaded)
