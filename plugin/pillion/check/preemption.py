"""Tiers, preemption and the retries that a preempted step needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pillion.authoring.findings import Finding
from pillion.authoring.manifests.document import Path_
from pillion.authoring.manifests.steps import Step, at
from pillion.check.manifest import Manifest, found
from pillion.policy import (
    BY_FIELD,
    PRIORITY_CLASS,
    Parameter,
    Problem,
    Terms,
    Tier,
    echo,
    examine,
    is_ours,
    is_parameter,
)

_SHORT_SECONDS = 3600  # what KFP writes unless told otherwise
_DURATION_PART = re.compile(r"([0-9]*\.?[0-9]+)(ns|us|µs|ms|s|m|h|d)", re.ASCII)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_ON_PREEMPT = BY_FIELD["on_preempt"].key


def preemption(manifest: Manifest) -> Iterator[Finding]:
    """Check every step that has a policy."""
    callers = _kfp_tasks(manifest)
    for step in manifest.steps:
        if step.shared or not step.makes_pod or not any(map(is_ours, step.effective)):
            continue
        terms, _ = examine(step.effective, parameters=True)
        yield from _on_high(step, terms)
        yield from _priority_class(step, terms)
        # What is known at run time only may turn out to be "wait", which needs no retries.
        if not terms.preemptible or isinstance(terms.on_preempt, Parameter) or terms.tier is Tier.HIGH:
            continue
        if step.platform == "argo":
            yield from _argo_retries(step)
        elif step.platform == "kfp":
            for path in callers.get((id(step.document), step.root, step.name), ()):
                yield from _kfp_retries(step, path)
        else:
            yield from _kubernetes_retries(step)


def _on_high(step: Step, terms: Terms) -> Iterator[Finding]:
    if terms.tier is Tier.HIGH and _ON_PREEMPT in step.annotations:
        problem = Problem(
            "on-preempt-on-high", f"{_ON_PREEMPT} is set on a high step", "nothing preempts a high step", "remove it"
        )
        path = (*step.metadata_path, "annotations", _ON_PREEMPT)
        yield found(step.metadata_document or step.document, path, problem.at(step.where))


def _priority_class(step: Step, terms: Terms) -> Iterator[Finding]:
    places: tuple[Path_, ...] = (
        ((*step.path, "priorityClassName"), (*step.root, "podPriorityClassName"))
        if step.platform == "argo"
        else ((*step.path, "spec", "priorityClassName"),)
    )
    for path in places:
        name = at(step.document.data, path)
        if isinstance(name, str) and name and not is_parameter(name) and not isinstance(terms.tier, Parameter):
            tier = terms.tier or Tier.NORMAL
            right = PRIORITY_CLASS[tier]
            ours = name in PRIORITY_CLASS.values()
            if name != right:
                problem = Problem(
                    "priority-class" if ours else "other-priority-class",
                    f"the priority class is {echo(name)} and the step is {tier.value}",
                    f"a {tier.value} step has {right}",
                    f"write {right}" if ours else "remove it; Pillion sets the tier's own",
                )
                yield found(step.document, path, problem.at(step.where))
            return


def _argo_retries(step: Step) -> Iterator[Finding]:
    places = (step.path, (*step.root, "templateDefaults"), step.root)
    for place in places:
        strategy = at(step.document.data, (*place, "retryStrategy"))
        if isinstance(strategy, Mapping):
            yield from _argo_strategy(step, (*place, "retryStrategy"), strategy)
            return
    fix = "add retryStrategy: {limit: 5, retryPolicy: Always}, or let pillion compile do it"
    yield found(step.document, step.path, _no_retries(step, "has no retryStrategy", fix))


def _argo_strategy(step: Step, path: Path_, strategy: Mapping[str, Any]) -> Iterator[Finding]:
    if str(strategy.get("limit")) == "0":
        problem = _no_retries(step, "has a retryStrategy with limit 0", "raise the limit")
        yield found(step.document, (*path, "limit"), problem)
        return
    # Argo retries failures only, unless told otherwise; beside an expression it leaves the decision to that.
    policy = strategy.get("retryPolicy", "Always" if "expression" in strategy else "OnFailure")
    if policy != "Always" and not is_parameter(str(policy)):
        problem = Problem(
            "retry-policy", f"retryPolicy is {policy}" if "retryPolicy" in strategy else "there is no retryPolicy",
            "an evicted pod may end as Error (pod deleted), which only Always retries too",
            "write retryPolicy: Always", where=step.where,
        )  # fmt: skip
        yield found(step.document, (*path, "retryPolicy") if "retryPolicy" in strategy else path, problem)
    longest = at(strategy, ("backoff", "maxDuration"))
    if longest is not None:
        yield from _window(step, (*path, "backoff", "maxDuration"), longest, '"604800"')


def _window(step: Step, path: Path_, longest: Any, right: str) -> Iterator[Finding]:
    seconds = _seconds(longest)
    if seconds is None or seconds > _SHORT_SECONDS:
        return
    name = path[-1]
    zero = seconds <= 0
    problem = Problem(
        "no-time-for-retries" if zero else "short-time-for-retries",
        f"{name} is {echo(longest)}, counted from the first attempt",
        "with no time there is never a retry" if zero else "a step that is evicted later than that is never retried",
        f"write {right}",
        where=step.where,
    )
    yield found(step.document, path, problem)


def _seconds(value: Any) -> float | None:
    """Read a duration as Argo and KFP do: seconds, or `1h30m`; None where it is neither."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str) or len(value) > 32:
        return None
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value, re.ASCII):
        return float(value)
    parts = _DURATION_PART.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _kfp_tasks(manifest: Manifest) -> dict[tuple[int, Path_, str], list[Path_]]:
    """Return the tasks that run each KFP executor, as their paths, by document, pipeline and executor label."""
    callers: dict[tuple[int, Path_, str], list[Path_]] = {}
    pipelines = {(id(step.document), step.root): step for step in manifest.steps if step.platform == "kfp"}
    for (document, root), step in pipelines.items():
        pipeline = at(step.document.data, root)
        components = pipeline.get("components")
        components = components if isinstance(components, dict) else {}
        labels = {name: at(component, ("executorLabel",)) for name, component in components.items()}
        for place in [(*root, "root"), *((*root, "components", name) for name in components)]:
            tasks = at(step.document.data, (*place, "dag", "tasks"))
            for task in tasks if isinstance(tasks, dict) else ():
                component = at(tasks, (task, "componentRef", "name"))
                label = labels.get(component) if isinstance(component, str) else None
                if isinstance(label, str):
                    callers.setdefault((document, root, label), []).append((*place, "dag", "tasks", task))
    return callers


def _kfp_retries(step: Step, task: Path_) -> Iterator[Finding]:
    policy = at(step.document.data, (*task, "retryPolicy"))
    if not isinstance(policy, Mapping) or str(policy.get("maxRetryCount", 0)) == "0":
        problem = _no_retries(step, f'has no retries in task "{task[-1]}"', "call set_retry(5, …) on the task")
        yield found(step.document, task, problem)
    else:
        yield from _window(
            step, (*task, "retryPolicy", "backoffMaxDuration"), policy.get("backoffMaxDuration", "3600s"), "604800s"
        )


def _kubernetes_retries(step: Step) -> Iterator[Finding]:
    kind = at(step.document.data, (*step.root, "kind"))
    backoff: dict[Any, Path_] = {
        "Job": (*step.root, "spec", "backoffLimit"),
        "CronJob": (*step.root, "spec", "jobTemplate", "spec", "backoffLimit"),
    }
    if kind in backoff and str(at(step.document.data, backoff[kind])) == "0":
        problem = _no_retries(step, "has backoffLimit 0", "raise it, or remove it for the default of 6")
        yield found(step.document, backoff[kind], problem)
    elif kind == "Pod":
        problem = Problem(
            "evicted-for-good", "the Pod may be evicted, and nothing creates it again",
            "only a controller's pods are retried", "make it a Job", where=step.where,
        )  # fmt: skip
        place = (*step.metadata_path, "annotations", _ON_PREEMPT)
        yield found(step.document, place, problem)


def _no_retries(step: Step, what: str, fix: str) -> Problem:
    return Problem(
        "no-retries", f"the step may be evicted and {what}", "an evicted step is lost unless it is retried", fix,
        where=step.where,
    )  # fmt: skip
