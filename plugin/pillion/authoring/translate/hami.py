"""HAMi: extended resources that cut a GPU into virtual ones.

Its words, among a container's limits, are `nvidia.com/gpumem` in MiB, `nvidia.com/gpumem-percentage`,
`nvidia.com/gpucores` in percent of the GPU's compute, and `nvidia.com/priority`, where 0 is high and more is low: a low
one stands still while a high one works. `nvidia.com/gpu` counts virtual GPUs, and alone it means a whole one. HAMi
enforces gpucores only while others are busy, unless `GPU_CORE_UTILIZATION_POLICY` is `force`.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pillion.authoring.manifests.containers import Request, bodies, gpu_container, requests
from pillion.authoring.manifests.document import Path_
from pillion.authoring.manifests.intent import Translation
from pillion.authoring.manifests.steps import Step, at, sequence
from pillion.authoring.translate.words import Words, mebibytes, scheduler, share_milli, whole, without_husks
from pillion.policy import Terms, Tier, echo

_COUNT = "nvidia.com/gpu"
_MEMORY, _PERCENTAGE = "nvidia.com/gpumem", "nvidia.com/gpumem-percentage"
_CORES, _PRIORITY = "nvidia.com/gpucores", "nvidia.com/priority"
WORDS = (_MEMORY, _PERCENTAGE, _CORES, _PRIORITY)
_SELECTORS = ("nvidia.com/use-gputype", "nvidia.com/nouse-gputype", "nvidia.com/use-gpuuuid",
              "nvidia.com/nouse-gpuuuid", "nvidia.com/vgpu-mode", "hami.io/gpu-scheduler-policy",
              "hami.io/node-scheduler-policy")  # fmt: skip
_FORCE = ("GPU_CORE_UTILIZATION_POLICY", "force")


def from_hami(step: Step) -> Translation | None:
    """Translate a step's HAMi resources; None if it has none."""
    if step.shared or step.platform == "kfp":
        return None  # they say nothing of containers, or of more than one resource
    asked = {name: (path, list(requests(step, path))) for name, path in bodies(step)}
    sharing = {name: entry for name, entry in asked.items() if any(ask.resource in WORDS for ask in entry[1])}
    if not sharing:
        return None
    words = Words(step)
    name, (path, entries) = next(iter(sharing.items()))
    if len(sharing) > 1:
        words.error(
            path, f"the containers {', '.join(sharing)} each ask for a part of a GPU", "one container of a pod does",
            "split the step",
        )  # fmt: skip
    terms = _terms(words, path, {ask.resource: ask for ask in reversed(entries)})
    default, _ = gpu_container(step, Terms())
    if name != default:
        terms = Terms(container=name).over(terms)
    removed = [ask.path for ask in entries if ask.resource in (*WORDS, _COUNT)]
    words.removals += [(step.document, place) for place in without_husks(step.document, removed)]
    for key in _SELECTORS:
        if key in step.annotations:
            words.note(words.place(key), f"{key} stays as it is", "Pillion does not act on it", metadata=True)
    scheduler(words, "hami-scheduler")
    return Translation(terms, tuple(words.removals), tuple(words.findings))


def _terms(words: Words, container: Path_, asked: Mapping[str, Request]) -> Terms:
    """Work out the terms; of several requests for one resource the limit counts."""
    count = asked.get(_COUNT)
    if count is not None and whole(count.amount) != 1:
        words.error(
            count.path, f"{_COUNT} is {echo(count.amount)}", "a step shares one GPU",
            "split the step, or ask for whole GPUs without the other words",
        )  # fmt: skip
    cores, percentage = _percent(words, asked.get(_CORES)), _percent(words, asked.get(_PERCENTAGE))
    terms = _memory(words, asked)
    tier = _tier(words, asked.get(_PRIORITY))
    share = max(cores, percentage)
    if share:
        milli = share_milli(Decimal(share) / 100)
        force = bool(cores) and any(
            (at(each, ("name",)), at(each, ("value",))) == _FORCE
            for each in sequence(at(words.step.document.data, (*container, "env")))
        )
        terms = Terms(share_milli=milli, limit_milli=milli if force else None).over(terms)
        _differences(words, asked, cores, percentage)
    elif tier is None:
        tier = Tier.LOW
        words.note(
            container, "no gpucores are said, so the step becomes a low one",
            "a low step reserves memory and runs in the time that others leave",
            "to guarantee it time, add --set 'STEP: share=…,priority=normal'",
        )  # fmt: skip
    return Terms(tier=tier).over(terms)


def _differences(words: Words, asked: Mapping[str, Request], cores: int, percentage: int) -> None:
    """Say where the share that stands for compute and memory alike gives the step more than it had."""
    if percentage > cores:
        words.note(
            asked[_PERCENTAGE].path, f"{percentage} % of the memory become a share of {percentage / 100:g}",
            "a share guarantees as much of the time as of the memory",
            "to guarantee less time, add --set 'STEP: share=…,memory=…'",
        )  # fmt: skip
    elif cores > percentage > 0:
        words.note(
            asked[_PERCENTAGE].path, f"{percentage} % of the memory become {cores} %",
            "a step that says no memory gets its share of the device's", "to take less, add --set 'STEP: memory=…'",
        )  # fmt: skip
    elif not percentage and _MEMORY not in asked:
        words.note(
            asked[_CORES].path, f"without gpumem HAMi gives all of the memory; now it is {cores} %",
            "a step that says no memory gets its share of the device's", "to take more, add --set 'STEP: memory=…'",
        )  # fmt: skip


def _memory(words: Words, asked: Mapping[str, Request]) -> Terms:
    memory = asked.get(_MEMORY)
    if memory is None:
        return Terms()
    if _PERCENTAGE in asked:
        words.error(memory.path, f"{_MEMORY} and {_PERCENTAGE} are both set", "a container has one of them")
    count = whole(memory.amount)
    size = mebibytes(count) if count is not None else None
    if size is None:
        words.error(memory.path, f"{_MEMORY} is {echo(memory.amount)}", "it is a whole number of MiB, at least 1")
    return Terms(memory=size)


def _percent(words: Words, asked: Request | None) -> int:
    value: Any = whole(asked.amount) if asked is not None else 0
    if asked is not None and (value is None or value > 100):
        words.error(asked.path, f"{asked.resource} is {echo(asked.amount)}", "it is a whole number from 0 to 100")
        return 0
    return int(value)


def _tier(words: Words, asked: Request | None) -> Tier | None:
    if asked is None:
        return None
    value = whole(asked.amount)
    if value is None:
        words.error(asked.path, f"{_PRIORITY} is {echo(asked.amount)}", "0 is high, 1 is low")
    return Tier.HIGH if value == 0 else Tier.LOW
