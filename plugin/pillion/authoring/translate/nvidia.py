"""NVIDIA's device plugin: GPUs that it hands out several times over, time-sliced or through MPS.

Where its configuration renames them, a container asks for `nvidia.com/gpu.shared`. How many others get the same GPU is
in that configuration and not in the manifest, so the share has to be said: `--set 'STEP: share=0.25'`.
"""

from __future__ import annotations

from pillion.authoring.manifests.containers import bodies, gpu_container, requests
from pillion.authoring.manifests.intent import Translation
from pillion.authoring.manifests.steps import Step
from pillion.authoring.translate.words import Words, whole, without_husks
from pillion.policy import Terms, echo

_SHARED = "nvidia.com/gpu.shared"
WORDS = (_SHARED,)


def from_nvidia(step: Step) -> Translation | None:
    """Translate a step's requests for shared GPUs; None if it has none."""
    asked = {
        name: found
        for name, path in bodies(step)
        if (found := [ask for ask in requests(step, path) if ask.resource == _SHARED])
    }
    if step.shared or not asked:
        return None
    words = Words(step)
    name, entries = next(iter(asked.items()))
    first = entries[0]
    if len(asked) > 1:
        words.error(
            first.path, f"the containers {', '.join(asked)} each ask for a shared GPU", "one container of a pod does",
            "split the step",
        )  # fmt: skip
    count = whole(first.amount)
    if not count:
        words.error(first.path, f"{_SHARED} is {echo(first.amount)}", "it is a whole number, at least 1")
    elif count > 1:
        words.note(
            first.path, f"{_SHARED} is {count}", "that never meant more time or memory than 1, and now means one share"
        )
    words.note(
        first.path, f"{_SHARED} says no amount of time or memory", "a share says both",
        "one over the replicas in the device plugin's configuration is what a busy GPU gave: --set 'STEP: share=…'",
    )  # fmt: skip
    default, _ = gpu_container(step, Terms())
    terms = Terms(container=name) if name != default else Terms()
    removed = without_husks(step.document, [ask.path for ask in entries])
    words.removals += [(step.document, path) for path in removed]
    return Translation(terms, tuple(words.removals), tuple(words.findings))
