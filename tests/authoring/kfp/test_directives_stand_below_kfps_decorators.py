"""Directives below `@dsl.component`, on the function: whatever kfp makes from the function has the policy."""

import functools
import json
import subprocess
import sys
import textwrap

import pytest
from kfp import dsl
from kfp.dsl.base_component import BaseComponent
from kfp.dsl.graph_component import GraphComponent
from kfp.dsl.python_component import PythonComponent

import pillion
from pillion import PolicyError, gpu_share, priority

LOW = {"pillion.dev/memory": "8Gi", "pillion.dev/priority": "low", "pillion.dev/share": "0.5"}


def pipeline_of(component, **arguments):
    @dsl.pipeline(name="p")
    def p():
        component(**arguments)

    return p


def test_a_component_from_a_tagged_function_has_its_policy(assert_only_policies_differ):
    @dsl.component(base_image="python:3.11")
    def train(rate: float):
        """Train."""

    plain = train

    @dsl.component(base_image="python:3.11")
    @gpu_share(0.5, memory="8Gi")
    @priority("low")
    def train(rate: float):
        """Train."""

    assert isinstance(train, PythonComponent)
    assert_only_policies_differ(pipeline_of(plain, rate=0.1), pipeline_of(train, rate=0.1), {"exec-train": LOW})


@pytest.mark.filterwarnings("ignore:The default base_image:FutureWarning")
def test_without_arguments_to_the_decorator(compiled):
    @dsl.component
    @gpu_share(0.5, memory="8Gi")
    @priority("low")
    def train():
        """Train."""

    assert compiled(pipeline_of(train)).annotations("exec-train") == LOW


def test_a_container_component(compiled):
    @dsl.container_component
    @gpu_share(0.5, memory="8Gi")
    @priority("low")
    def convert(name: str):
        return dsl.ContainerSpec(image="converter", args=[name])

    assert compiled(pipeline_of(convert, name="x")).annotations("exec-convert") == LOW


def test_a_notebook_component(compiled, tmp_path):
    notebook = tmp_path / "train.ipynb"
    notebook.write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))

    @dsl.notebook_component(notebook_path=str(notebook), base_image="python:3.11")
    @gpu_share(0.5, memory="8Gi")
    @priority("low")
    def train():
        dsl.run_notebook()

    assert compiled(pipeline_of(train)).annotations("exec-train") == LOW


def test_one_set_of_decorator_arguments_for_many_functions(compiled):
    step = dsl.component(base_image="python:3.11")

    @gpu_share(0.5)
    def first(): ...

    @priority("low")
    @gpu_share(memory="8Gi")
    def second(): ...

    def third(): ...

    @dsl.pipeline(name="p")
    def p():
        for function in (first, second, third):
            step(function)()

    found = compiled(p)
    assert {label: found.annotations(label) for label in found.executors} == {
        "exec-first": {"pillion.dev/priority": "normal", "pillion.dev/share": "0.5"},
        "exec-second": {"pillion.dev/memory": "8Gi", "pillion.dev/priority": "low"},
        "exec-third": {},
    }


def test_above_wins_over_below(compiled):
    @gpu_share(0.25)
    @dsl.component(base_image="python:3.11")
    @gpu_share(0.5, memory="8Gi")
    @priority("high")
    def train(): ...

    # The nearer gpu_share replaces the farther one as a whole; the farther priority has no nearer one.
    assert compiled(pipeline_of(train)).annotations("exec-train") == {
        "pillion.dev/priority": "high",
        "pillion.dev/share": "0.25",
    }


def test_a_function_that_wraps_a_tagged_one_has_its_policy(compiled):
    @gpu_share(0.5, memory="8Gi")
    @priority("low")
    def train(): ...

    @functools.wraps(train)
    def traced():
        return train()

    assert compiled(pipeline_of(dsl.component(base_image="python:3.11")(traced))).annotations("exec-train") == LOW


def test_on_a_pipelines_function_they_are_refused():
    with pytest.raises(PolicyError) as caught:

        @dsl.pipeline(name="p")
        @gpu_share(0.5)
        @priority("low")
        def everything(): ...

    (problem,) = caught.value.problems
    assert str(problem) == (
        "pipeline \"everything\": a pipeline's function carries gpu_share(0.5) and priority('low'); a policy belongs "
        "to a step (for all steps of the pipeline, put @pillion.defaults(...) there instead)"
    )
    assert problem.code == "kfp-pipeline"


def test_values_that_only_argo_fills_in_are_refused():
    with pytest.raises(PolicyError) as caught:

        @dsl.component(base_image="python:3.11")
        @gpu_share("{{inputs.parameters.share}}")
        def train(): ...

    assert [(problem.code, problem.where) for problem in caught.value.problems] == [
        ("kfp-parameter", 'component "train"')
    ]


def test_kfp_may_be_imported_after_the_function_is_tagged(tmp_path):
    program = tmp_path / "late.py"
    program.write_text(
        textwrap.dedent("""
        import sys
        import pillion

        @pillion.gpu_share(0.5)
        def train(): ...

        assert "kfp" not in sys.modules
        from kfp import dsl
        step = dsl.component(base_image="python:3.11")(train)

        @dsl.pipeline(name="p")
        def p():
            step()

        executors = p.platform_spec.platforms["kubernetes"].deployment_spec.executors
        print(executors["exec-train"]["podMetadata"]["annotations"]["pillion.dev/share"])
        """)
    )
    found = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    assert found.stdout == "0.5\n"


def test_kfps_functions_are_wrapped_once_however_often_they_are_needed():
    for _ in range(3):

        @dsl.component(base_image="python:3.11")
        @gpu_share(0.5)
        def train(): ...

        with pillion.defaults(priority="low"):
            pass
    for function in (PythonComponent.__init__, GraphComponent.__init__, BaseComponent.__call__):
        assert not hasattr(function.__wrapped__, "__wrapped__")
