"""Hera: nightly training rides on the idle moments of an online inference service on the same GPU.

The service is guaranteed 80 % of the GPU's time and loses at most 1 % to the training, never more than 5 ms at once.
The training is a low step that gives way by itself; if its memory is needed it is moved to the host and back.
"""

from hera.workflows import Container, CronWorkflow, WorkflowTemplate, script

from pillion import gpu_share, priority

IMAGE = "python:3.11-slim"


@gpu_share(memory="16Gi")
@priority("low", on_preempt="suspend")
@script(image=IMAGE)
def train():
    """Train on what was collected during the day."""
    print("training")


with CronWorkflow(
    name="nightly-training", entrypoint="train", schedules=["0 1 * * *"], concurrency_policy="Forbid"
) as nightly:
    train()

with WorkflowTemplate(name="online-inference", entrypoint="serve") as inference:
    serve = Container(name="serve", image=IMAGE, command=["python", "-m", "http.server", "8080"])
    priority("high", max_slowdown="1%", max_stall="5ms")(gpu_share(0.8, memory="24Gi")(serve))
