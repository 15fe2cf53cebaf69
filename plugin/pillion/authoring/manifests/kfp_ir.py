"""A policy as changes to KFP's intermediate representation: what KFP's own compiler would have written.

The annotations and the label stand in the platform document. In the pipeline document the policy's hash goes into the
executor's environment, by which a policy that strayed to another step is recognised, and the retries into its tasks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pillion.authoring.findings import Finding
from pillion.authoring.kfp.leaks import leaks
from pillion.authoring.manifests.changes import put
from pillion.authoring.manifests.document import Key, Path_
from pillion.authoring.manifests.intent import Intent
from pillion.authoring.manifests.rewrite import Revision
from pillion.authoring.manifests.steps import Step, at, sequence
from pillion.authoring.tags import retry_limit
from pillion.policy import HASH_ENV, Problem, policy_hash

# As KFP's set_retry writes it, but for the last: Argo counts that from the first attempt, and with KFP's hour a step
# that is preempted later would not be tried again.
_RETRY_POLICY: dict[str, Any] = {"backoffDuration": "0s", "backoffFactor": 2.0, "backoffMaxDuration": "604800s"}
_KFP_BACKOFF_MAX_DURATION = "3600s"
# What follows the platform document's root in `Step.metadata_path`: platforms, kubernetes, deploymentSpec, executors,
# the label, podMetadata.
_BELOW_PLATFORM = 6


def strayed(steps: Sequence[Step]) -> Iterator[Finding]:
    """Yield the policies that KFP attached to another step of a pipeline than their author did."""
    executors = {step.name: step for step in steps if step.platform == "kfp"}
    if not executors:
        return
    first = next(iter(executors.values()))
    platform = first.metadata_document
    spec = at(platform.data, first.metadata_path[:-_BELOW_PLATFORM]) if platform else None
    for leak in leaks(at(first.document.data, first.root), spec if isinstance(spec, Mapping) else None):
        step = executors.get(leak.executor)
        if step is not None:
            document, path = step.document, step.path
            if step.annotations and step.metadata_document is not None:
                document, path = step.metadata_document, (*step.metadata_path, "annotations")
            yield document.finding(path, leak.problem)


def write_hash(intent: Intent, revision: Revision) -> None:
    """Add the policy's hash to the executor's environment."""
    step = intent.step
    names = [at(entry, ("name",)) for entry in sequence(at(step.raw, ("container", "env")))]
    place = (*step.path, "container", "env")
    wanted = policy_hash(intent.terms)
    if HASH_ENV in names:
        put(revision.of(step.document), (*place, names.index(HASH_ENV), "value"), wanted)
    else:
        put(revision.of(step.document), (*place, len(names)), {"name": HASH_ENV, "value": wanted})


def write_retry_policies(intent: Intent, revision: Revision) -> Iterator[Finding]:
    """Add retries to the tasks that run an executor; yield a warning where the author's own stay."""
    step, count = intent.step, retry_limit(intent.retries, intent.terms)
    if count is None:
        return
    for task in _tasks(step):
        path = (*task, "retryPolicy")
        own = at(step.document.data, path)
        if own is None and count:
            put(revision.of(step.document), path, {**_RETRY_POLICY, "maxRetryCount": count})
        elif isinstance(own, Mapping):
            problem = _kept(own, count, task[-1], said=intent.retries is not None)
            if problem is not None:
                yield step.document.finding(path, problem.at(step.where), warning=True)


def _kept(own: Mapping[str, Any], count: int, task: Key, *, said: bool) -> Problem | None:
    whose = f'the author\'s own retryPolicy of task "{task}" stays'
    lasts = own.get("backoffMaxDuration", _KFP_BACKOFF_MAX_DURATION)
    if count and _seconds(lasts) < _seconds(_RETRY_POLICY["backoffMaxDuration"]):
        return Problem(
            "short-time-for-retries", f"{whose}, and stops {lasts} after the first attempt",
            "a step that is evicted later than that is never retried", "write backoffMaxDuration: 604800s",
        )  # fmt: skip
    if said and own.get("maxRetryCount", 0) != count:
        return Problem("own-retries", f"retries={count} is left out", whose)
    return None


def _seconds(duration: object) -> float:
    """Read a duration as protobuf writes it in JSON: seconds with an s."""
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)s", duration, re.ASCII) if isinstance(duration, str) else None
    return float(match[1]) if match else 0.0


def passed_on(step: Step) -> Iterator[Finding]:
    """Yield where a component hands its environment on to another workload, so that its own pod would lack the hash."""
    for component in _components(step):
        path = (*step.root, "components", component, "taskConfigPassthroughs")
        passed = sequence(at(step.document.data, path))
        kept = [at(each, ("field",)) == "ENV" and at(each, ("applyToTask",)) is True for each in passed]
        if passed and not any(kept):
            problem = Problem(
                "kfp-passthrough", "its component hands its environment on (taskConfigPassthroughs)",
                "the step's own pod must keep its environment, by which its policy is recognised",
                "add {field: ENV, applyToTask: true}", where=step.where,
            )  # fmt: skip
            yield step.document.finding(path, problem)


def _components(step: Step) -> list[str]:
    components = at(step.document.data, (*step.root, "components"))
    entries = components.items() if isinstance(components, Mapping) else ()
    return [name for name, component in entries if at(component, ("executorLabel",)) == step.name]


def _tasks(step: Step) -> Iterator[Path_]:
    """Yield the tasks that run a step, anywhere in its pipeline."""
    running = _components(step)
    components = at(step.document.data, (*step.root, "components"))
    places: list[Path_] = [(*step.root, "root")]
    places += [(*step.root, "components", name) for name in (components if isinstance(components, Mapping) else ())]
    for place in places:
        tasks = at(step.document.data, (*place, "dag", "tasks"))
        for name, task in tasks.items() if isinstance(tasks, Mapping) else ():
            if at(task, ("componentRef", "name")) in running:
                yield (*place, "dag", "tasks", name)
