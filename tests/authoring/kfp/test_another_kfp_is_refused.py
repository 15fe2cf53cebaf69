"""A release of kfp that lacks the places where Pillion listens is refused: no policy is lost without a word."""

import types

import kfp
import pytest
from kfp.dsl.graph_component import GraphComponent

from pillion.authoring.kfp import hooks, pipelines


def test_a_function_that_is_missing():
    owner = types.SimpleNamespace(__name__="kfp.dsl.moved")
    with pytest.raises(hooks.UnsupportedKfpError) as caught:
        hooks.wrap(owner, "create", lambda original: original())
    assert str(caught.value) == (
        f"kfp {kfp.__version__} has no kfp.dsl.moved.create, by which Pillion keeps policies on their steps; "
        "install a release that this Pillion supports: pip install 'pillion[kfp]'"
    )


def test_an_argument_that_is_missing():
    def create(graph): ...

    with pytest.raises(hooks.UnsupportedKfpError, match=r"argument pipeline of .*create"):
        hooks.arguments(create, (1,), {}, "pipeline")


def test_pipelines_that_are_built_by_another_function(monkeypatch):
    monkeypatch.setattr(GraphComponent, "__init__", lambda self: None)
    with pytest.raises(hooks.UnsupportedKfpError, match="call of create_pipeline_spec in GraphComponent"):
        pipelines.watch()


def test_wrapping_keeps_what_the_function_says_of_itself():
    def create(pipeline):
        """Create it."""
        return pipeline

    owner = types.SimpleNamespace(__name__="kfp.dsl", create=create)
    for _ in range(2):
        hooks.wrap(owner, "create", lambda original, *args: [original(*args)])
    assert owner.create(1) == [1]
    assert (owner.create.__name__, owner.create.__doc__) == ("create", "Create it.")
