"""What policies add to compiling a KFP pipeline of 200 steps, in one process, alternating: processor time, medians.

Four pipelines that differ in their policies only: none; by decorators; and the same policies without decorators, once
with `kfp.kubernetes` and once put straight into the tasks' dicts, which is the least that can be done. The last three
compile to the same bytes, so their ratios are what Pillion costs. The ratio to the first also holds what KFP's writer
takes for the text that policies are: the second document, the retries, the variables. Goal: at most 1.05.

Run: python bench/compile_kfp.py
"""

import gc
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kfp import dsl, kubernetes
from kfp.compiler import Compiler

from pillion import gpu_share, priority
from pillion.policy import HASH_ENV, MANAGED_LABEL, MANAGED_VALUE, Terms, policy_hash, write

STEPS = 200
REPETITIONS = 15


@dsl.component(base_image="python:3.11")
def train(rate: float, epochs: int = 3) -> float:
    """Stand in for a step of some length."""
    loss = 1.0
    for epoch in range(epochs):
        loss *= 1 - rate
        print(f"epoch {epoch}: loss {loss}")
    return loss


SHARE = gpu_share(0.5, memory="8Gi")
URGENCY = priority("low", on_preempt="evict")
TERMS: Terms = SHARE.directive.terms.over(URGENCY.directive.terms)
ANNOTATIONS, HASH = write(TERMS), policy_hash(TERMS)
tagged = SHARE(URGENCY(train))


def by_hand(**arguments: Any) -> Any:
    """Make a task with the same policy, with KFP's own functions."""
    task = train(**arguments)
    for key, value in ANNOTATIONS.items():
        kubernetes.add_pod_annotation(task, key, value)
    kubernetes.add_pod_label(task, MANAGED_LABEL, MANAGED_VALUE)
    task.set_env_variable(HASH_ENV, HASH)
    return task.set_retry(5, backoff_max_duration="604800s")


def in_dicts(**arguments: Any) -> Any:
    """Make a task with the same policy in the quickest way there is."""
    task = train(**arguments)
    task.container_spec.env = {HASH_ENV: HASH}
    task.platform_config["kubernetes"] = {
        "podMetadata": {"annotations": ANNOTATIONS, "labels": {MANAGED_LABEL: MANAGED_VALUE}}
    }
    return task.set_retry(5, backoff_max_duration="604800s")


def compile_s(step: Callable[..., Any], path: Path) -> float:
    """Return how much processor time it takes to define and compile a pipeline of `STEPS` steps, in seconds."""
    began = time.process_time()

    @dsl.pipeline(name="bench")
    def pipeline(rate: float = 0.1) -> None:
        for epochs in range(STEPS):
            step(rate=rate, epochs=epochs)

    Compiler().compile(pipeline, str(path))
    return time.process_time() - began


def main() -> None:
    """Print the medians and their ratios."""
    variants = {"undecorated": train, "decorated": tagged, "kfp.kubernetes": by_hand, "dicts": in_dicts}
    taken: dict[str, list[float]] = {name: [] for name in variants}
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder, f"{name}.yaml") for name in variants}
        for repetition in range(REPETITIONS + 1):
            order = list(variants) if repetition % 2 else list(reversed(variants))
            for name in order:
                gc.collect()
                seconds = compile_s(variants[name], paths[name])
                if repetition:  # the first warms up
                    taken[name].append(seconds)
        texts = {name: path.read_text() for name, path in paths.items()}
    assert texts["decorated"] == texts["kfp.kubernetes"] == texts["dicts"]
    print(f"{STEPS} steps, median of {REPETITIONS}:")
    for name, seconds in taken.items():
        lines = texts[name].count("\n")
        print(f"  {name:15} {statistics.median(seconds) * 1e3:4.0f} ms, {lines} lines of YAML")

    def ratio(name: str, base: str) -> float:
        return statistics.median(one / other for one, other in zip(taken[name], taken[base], strict=True))

    print(f"decorated / undecorated: {ratio('decorated', 'undecorated'):.3f} (goal 1.05), of which")
    print(f"  text of the policies: {ratio('dicts', 'undecorated'):.3f}")
    print(f"  Pillion itself: {ratio('decorated', 'dicts'):.3f}")
    print(f"decorated / the same with kfp.kubernetes: {ratio('decorated', 'kfp.kubernetes'):.3f}")


if __name__ == "__main__":
    main()
