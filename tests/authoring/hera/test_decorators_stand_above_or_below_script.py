"""`@gpu_share` and `@priority` on script functions: above `@script`, below it, both, and on methods of other names."""

import functools
import inspect

import pytest
from hera.workflows import DAG, Script, Steps, Workflow, script

from pillion import PolicyError, gpu_share, priority

POLICY = ({"memory": "8Gi", "on-preempt": "evict", "priority": "low", "share": "0.5"}, "pillion-low", {"limit": "5", "retryPolicy": "Always"})  # fmt: skip


@gpu_share(0.5, memory="8Gi")
@priority("low", on_preempt="evict")
@script(image="trainer:1")
def above(rate: float):
    """Train."""
    print(rate)


@script(image="trainer:1")
@gpu_share(0.5, memory="8Gi")
@priority("low", on_preempt="evict")
def below(rate: float):
    """Train."""
    print(rate)


@gpu_share(0.5, memory="8Gi")
@script(image="trainer:1")
@priority("low", on_preempt="evict")
def around(rate: float):
    """Train."""
    print(rate)


@script(image="trainer:1")
def plain(rate: float):
    """Train."""
    print(rate)


EVERY_WAY = pytest.mark.parametrize("train", [above, below, around])


def calling(train):
    with Workflow(name="nightly", entrypoint="all") as nightly, Steps(name="all"):
        train(name="first", arguments={"rate": 0.1})
    return nightly


@EVERY_WAY
def test_the_policy_reaches_the_template(train, policy_of):
    assert policy_of(calling(train)) == {train.__name__: POLICY}


@EVERY_WAY
def test_nothing_else_changes(train, templates):
    name = train.__name__
    ours, theirs = templates(calling(train))[name], templates(calling(plain))["plain"]
    for field in ("metadata", "priorityClassName", "retryStrategy"):
        del ours[field]
    assert ours == {**theirs, "name": name}


@EVERY_WAY
def test_name_documentation_and_signature_survive(train):
    assert train.__doc__ == "Train."
    assert inspect.signature(train) == inspect.signature(plain)
    assert (train.__module__, train.__qualname__) == (__name__, train.__name__)


@EVERY_WAY
def test_the_function_runs_here_as_before(train, capsys):
    assert train(0.1) is None
    assert capsys.readouterr().out == "0.1\n"


@EVERY_WAY
def test_a_script_may_be_used_in_a_dag_and_directly(train, policy_of):
    with Workflow(name="nightly", entrypoint="all") as in_dag, DAG(name="all"):
        train(name="first", arguments={"rate": 0.1}) >> train(name="second", arguments={"rate": 0.2})
    with Workflow(name="nightly", entrypoint=train.__name__) as alone:
        train()
    assert policy_of(in_dag) == policy_of(alone) == {train.__name__: POLICY}


def test_the_outermost_wins(policy_of):
    @gpu_share(0.75)
    @script(image="i")
    @gpu_share(0.25, memory="8Gi")
    def train():
        pass

    with Workflow(name="nightly", entrypoint="train") as nightly:
        train()
    assert policy_of(nightly) == {"train": ({"priority": "normal", "share": "0.75"}, "pillion-normal", None)}


def test_a_script_of_the_class_takes_the_policy_of_its_function(policy_of):
    @gpu_share(0.5)
    def train():
        pass

    nightly = Workflow(name="nightly", entrypoint="train", templates=[Script(name="train", image="i", source=train)])
    assert policy_of(nightly) == {"train": ({"priority": "normal", "share": "0.5"}, "pillion-normal", None)}


def test_a_policy_of_the_script_wins_over_that_of_its_function(policy_of):
    @gpu_share(0.5, memory="1Gi")
    @priority("low")
    def train():
        pass

    step = gpu_share(0.25, memory="2Gi")(Script(name="train", image="i", source=train))
    nightly = Workflow(name="nightly", entrypoint="train", templates=[step])
    assert policy_of(nightly) == {"train": ({"memory": "2Gi", "priority": "low", "share": "0.25"}, "pillion-low", None)}


def test_two_scripts_of_one_function_have_policies_of_their_own(policy_of):
    def work():
        pass

    large = gpu_share(0.75)(script(name="large", image="i")(work))
    small = gpu_share(0.25)(script(name="small", image="i")(work))
    free = script(name="free", image="i")(work)
    with Workflow(name="nightly", entrypoint="all") as nightly, Steps(name="all"):
        large(), small(), free()
    assert policy_of(nightly) == {
        "large": ({"priority": "normal", "share": "0.75"}, "pillion-normal", None),
        "small": ({"priority": "normal", "share": "0.25"}, "pillion-normal", None),
    }


def test_a_script_made_from_a_decorated_one_keeps_its_policy(policy_of):
    again = script(name="again", image="i")(above)
    with Workflow(name="nightly", entrypoint="again") as nightly:
        again()
    assert policy_of(nightly) == {"again": POLICY}


def test_static_methods_of_a_class(policy_of):
    class Steps_:
        @script(image="i")
        @staticmethod
        @gpu_share(0.5)
        def train():
            pass

    with Workflow(name="nightly", entrypoint="train") as nightly:
        Steps_.train()
    assert policy_of(nightly) == {"train": ({"priority": "normal", "share": "0.5"}, "pillion-normal", None)}


def test_a_method_as_a_scripts_source(policy_of):
    class Trainer:
        @gpu_share(0.5)
        def train(self, rate: float):
            print(rate)

    step = Script(name="train", image="i", source=Trainer().train)
    nightly = Workflow(name="nightly", entrypoint="train", templates=[step])
    assert policy_of(nightly) == {"train": ({"priority": "normal", "share": "0.5"}, "pillion-normal", None)}


@pytest.mark.parametrize("where", ["above", "below"])
def test_the_same_decorator_twice_on_one_side_is_refused(where):
    def train():
        pass

    target = script(image="i")(train) if where == "above" else train
    gpu_share(0.5)(target)
    with pytest.raises(PolicyError) as caught:
        gpu_share(0.25)(target)
    assert [problem.code for problem in caught.value.problems] == ["directive-twice"]


def test_a_decorator_between_is_refused_rather_than_skipped():
    def logged(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    with pytest.raises(PolicyError, match=r"directly above or directly below @script") as caught:
        gpu_share(0.5)(logged(script(image="i")(lambda: None)))
    assert [problem.code for problem in caught.value.problems] == ["not-a-template"]


def test_a_script_without_its_function_is_refused():
    with pytest.raises(PolicyError, match=r"directly above or directly below @script"):
        gpu_share(0.5)(script(image="i"))
