"""Loops, branches and exit handlers: a step keeps its policy, and nothing else in the spec changes."""

import pytest
from kfp import dsl

from pillion import gpu_share, priority

EVICTABLE = {
    "pillion.dev/memory": "8Gi",
    "pillion.dev/on-preempt": "evict",
    "pillion.dev/priority": "low",
}
HIGH = {"pillion.dev/max-slowdown": "2%", "pillion.dev/priority": "high", "pillion.dev/share": "0.5"}


@dsl.component(base_image="python:3.11")
def train(rate: float) -> float:
    return rate


@dsl.component(base_image="python:3.11")
def evaluate(loss: float) -> str:
    return str(loss)


@dsl.component(base_image="python:3.11")
def flip() -> str:
    return "heads"


@dsl.component(base_image="python:3.11")
def rates() -> list:
    return [0.1]


@dsl.component(base_image="python:3.11")
def best(losses: list) -> float:
    return min(losses)


@dsl.component(base_image="python:3.11")
def clean(status: dsl.PipelineTaskFinalStatus): ...


def evictable(component):
    return gpu_share(memory="8Gi")(priority("low", on_preempt="evict")(component))


def high(component):
    return gpu_share(0.5)(priority("high", max_slowdown="2%")(component))


def same(component):
    return component


def loop(evictable, high):
    @dsl.pipeline(name="loop")
    def p(count: int = 2):
        with dsl.ParallelFor([0.1, 0.01], parallelism=2) as rate:
            trained = evictable(train)(rate=rate)
        high(evaluate)(loss=best(losses=dsl.Collected(trained.output)).output)

    return p, {"exec-train": EVICTABLE, "exec-evaluate": HIGH}, {"exec-train": 5}


def loop_over_an_output(evictable, high):
    @dsl.pipeline(name="loop-output")
    def p():
        with dsl.ParallelFor(rates().output) as rate:
            with dsl.ParallelFor([1, 2]):
                trained = evictable(train)(rate=rate)
            high(evaluate)(loss=1.0).after(trained)

    return p, {"exec-train": EVICTABLE, "exec-evaluate": HIGH}, {"exec-train": 5}


def branches(evictable, high):
    @dsl.pipeline(name="branches")
    def p(rate: float = 0.1) -> float:
        coin = flip()
        with dsl.If(coin.output == "heads"):
            first = evictable(train)(rate=rate)
        with dsl.Elif(coin.output == "tails"):
            second = train(rate=rate)
        with dsl.Else():
            third = high(train)(rate=0.3)
        chosen = dsl.OneOf(first.output, second.output, third.output)
        evictable(evaluate)(loss=chosen)
        return chosen

    policies = {"exec-train": EVICTABLE, "exec-train-3": HIGH, "exec-evaluate": EVICTABLE}
    return p, policies, {"exec-train": 5, "exec-evaluate": 5}


def exit_handler(evictable, high):
    @dsl.pipeline(name="exit-handler")
    def p():
        last = evictable(clean)()
        with dsl.ExitHandler(last):
            high(train)(rate=0.1)

    return p, {"exec-clean": EVICTABLE, "exec-train": HIGH}, {"exec-clean": 5}


def upstream_failures(evictable, high):
    @dsl.pipeline(name="failures")
    def p():
        trained = high(train)(rate=0.1)
        evictable(clean)().after(trained).ignore_upstream_failure()

    return p, {"exec-clean": EVICTABLE, "exec-train": HIGH}, {"exec-clean": 5}


FLOWS = [loop, loop_over_an_output, branches, exit_handler, upstream_failures]


@pytest.mark.parametrize("flow", FLOWS, ids=[flow.__name__ for flow in FLOWS])
def test_tagged_components(flow, assert_only_policies_differ):
    plain, _, _ = flow(same, same)
    tagged, policies, retries = flow(evictable, high)
    assert_only_policies_differ(plain, tagged, policies, retries)


@pytest.mark.parametrize("flow", FLOWS, ids=[flow.__name__ for flow in FLOWS])
def test_tagged_tasks(flow, assert_only_policies_differ):
    def on_task(tag):
        return lambda component: lambda **arguments: tag(component(**arguments))

    plain, _, _ = flow(same, same)
    tagged, policies, retries = flow(on_task(evictable), on_task(high))
    assert_only_policies_differ(plain, tagged, policies, retries)
