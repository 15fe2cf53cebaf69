"""KAI Scheduler: annotations that divide a GPU's memory among pods.

Its words are `gpu-fraction`, a part of the device's memory; `gpu-memory`, in MiB; `gpu-fraction-container-name`, else
the first container; and `gpu-fraction-num-devices`. KAI guarantees no compute time. The queue's label is left alone.
"""

from __future__ import annotations

from typing import Any

from pillion.authoring.manifests.containers import bodies
from pillion.authoring.manifests.intent import Translation
from pillion.authoring.manifests.steps import Step, at, sequence
from pillion.authoring.translate.words import Words, decimal, mebibytes, scheduler, share_milli, whole
from pillion.policy import Memory, Terms, Tier, echo

_FRACTION, _MEMORY = "gpu-fraction", "gpu-memory"
_CONTAINER, _DEVICES = "gpu-fraction-container-name", "gpu-fraction-num-devices"
WORDS = (_FRACTION, _MEMORY, _CONTAINER, _DEVICES)
_LIMITS = ("gpu-fraction.limit", "gpu-memory.limit", "gpu-sm-percentage", "gpu-sm-cores")


def from_kai(step: Step) -> Translation | None:
    """Translate a step's KAI annotations; None if it has none."""
    if not any(key in step.annotations for key in (_FRACTION, _MEMORY)):
        return None
    words = Words(step)
    fraction, memory = words.annotation(_FRACTION), words.annotation(_MEMORY)
    terms = Terms()
    if fraction is not None and memory is not None:
        words.error(
            words.place(_MEMORY), f"{_FRACTION} and {_MEMORY} are both set", "a pod has one of them", "remove one",
            metadata=True,
        )  # fmt: skip
    elif fraction is not None:
        terms = Terms(share_milli=_share(words, fraction))
    else:
        terms = Terms(memory=_amount(words, memory), tier=Tier.LOW)
        words.note(
            words.place(_MEMORY), f"{_MEMORY} says nothing about time, so the step becomes a low one",
            "a low step reserves memory and runs in the time that others leave",
            "to guarantee it time, add --set 'STEP: share=…,priority=normal'", metadata=True,
        )  # fmt: skip
    _devices(words)
    terms = Terms(container=_container(words)).over(terms)
    for key in _LIMITS:
        if key in step.annotations:
            words.note(words.place(key), f"{key} stays as it is", "Pillion does not act on it", metadata=True)
    scheduler(words, "kai-scheduler")
    return Translation(terms, tuple(words.removals), tuple(words.findings))


def _share(words: Words, value: Any) -> int | None:
    fraction = decimal(value)
    share = share_milli(fraction) if fraction is not None else None
    place = words.place(_FRACTION)
    if share is None:
        words.error(
            place, f"{_FRACTION} is {echo(value)}", "a fraction that becomes a share is at least 0.01 and at most 1",
            metadata=True,
        )  # fmt: skip
    elif fraction is not None and fraction * 1000 != share:
        words.note(
            place, f"{_FRACTION} {value} is rounded up to {share / 1000:g}", "a share has at most three decimals",
            metadata=True,
        )  # fmt: skip
    return share


def _amount(words: Words, value: Any) -> Memory | None:
    count = whole(value)
    memory = mebibytes(count) if count is not None else None
    if memory is None:
        words.error(
            words.place(_MEMORY), f"{_MEMORY} is {echo(value)}", "a memory is a whole number of MiB, at least 1",
            metadata=True,
        )  # fmt: skip
    return memory


def _devices(words: Words) -> None:
    count = words.annotation(_DEVICES)
    if count is not None and whole(count) != 1:
        words.error(
            words.place(_DEVICES), f"{_DEVICES} is {echo(count)}", "a step shares one GPU",
            "split the step, or ask for whole GPUs", metadata=True,
        )  # fmt: skip


def _container(words: Words) -> str | None:
    name = words.annotation(_CONTAINER)
    if isinstance(name, str):
        return name
    if name is not None:
        words.error(words.place(_CONTAINER), f"{_CONTAINER} is {echo(name)}", "it is a container's name", metadata=True)
    # The first container of a pod is KAI's default; Pillion's is the only one. In Argo and KFP both mean main.
    several = len(sequence(at(words.step.raw, ("spec", "containers")))) > 1
    return next((name for name, _ in bodies(words.step)), None) if several else None
