"""Kubeflow Pipelines: train with several learning rates side by side on shared GPUs, then evaluate the best one first.

The trainings are low steps: they reserve memory and run in whatever time the GPU has left. A higher step may evict
them; they are then retried. The evaluation is what somebody waits for, so it is guaranteed half a GPU and goes first.
"""

from kfp import dsl

from pillion import gpu_share, priority

IMAGE = "python:3.11-slim"


@gpu_share(memory="8Gi")
@priority("low", on_preempt="evict", retries=5)
@dsl.component(base_image=IMAGE)
def train(learning_rate: float) -> float:
    """Return the loss after training."""
    print(f"training with learning rate {learning_rate}")
    return learning_rate * 2


@dsl.component(base_image=IMAGE)
def smallest(losses: list) -> float:
    """Return the smallest loss; needs no GPU, so it says nothing about one."""
    return min(losses)


@gpu_share(0.5, memory="4Gi")
@priority("high", max_slowdown="1%")
@dsl.component(base_image=IMAGE)
def evaluate(loss: float) -> str:
    """Evaluate the best model."""
    return f"best loss: {loss}"


@dsl.pipeline(name="train-and-evaluate")
def train_and_evaluate(learning_rates: list = [0.1, 0.01, 0.001]):  # noqa: B006 - KFP wants the default itself
    """Train once per learning rate, evaluate the best."""
    with dsl.ParallelFor(learning_rates) as learning_rate:
        trained = train(learning_rate=learning_rate)
    best = smallest(losses=dsl.Collected(trained.output))
    evaluate(loss=best.output)
