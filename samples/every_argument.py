"""Kubeflow Pipelines: every argument of both decorators, on the component, on one task, and for a whole pipeline."""

from kfp import dsl

import pillion
from pillion import gpu_share, priority


@dsl.component(base_image="python:3.11-slim")
def work(name: str):
    """Stand in for any step."""
    print(name)


# On a component: a guaranteed quarter of the GPU's time, never more than half of it, 6 GiB of its memory.
capped = gpu_share(0.25, limit=0.5, memory="6Gi", container="main")(work)


@gpu_share("500m", memory="8Gi")
@priority("high", max_slowdown="2.5%", max_stall="20ms")
@dsl.component(base_image="python:3.11-slim")
def urgent():
    """Lose at most 2.5 % to lower tiers, and never 20 ms at once."""


@dsl.pipeline(name="every-argument")
@pillion.defaults(priority="low", on_preempt="suspend", retries=2)
def every_argument():
    """Steps that say gpu_share but no priority are low here; the ones that say one keep it."""
    capped(name="low by the pipeline's default, a quarter as its weight among guests")
    urgent()
    # On one task: it wins over the component's, and replaces it as a whole.
    gpu_share(memory="2Gi")(capped(name="2 GiB and no weight"))
    priority("normal", on_preempt="evict", retries=3)(capped(name="normal, tried again up to three times"))
    work(name="says no gpu_share, so it uses no GPU")
