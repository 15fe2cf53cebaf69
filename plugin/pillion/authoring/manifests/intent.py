"""What each step of a manifest is meant to have: its own annotations, what `--from` translates, what `--set` says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pillion.authoring.findings import Finding
from pillion.authoring.manifests.containers import gpu_container, whole_gpu
from pillion.authoring.manifests.document import Document, Path_
from pillion.authoring.manifests.settings import Setting
from pillion.authoring.manifests.steps import Step
from pillion.policy import (
    BY_FIELD,
    MANAGED_LABEL,
    MANAGED_VALUE,
    TERMS,
    Parameter,
    PolicyError,
    Problem,
    Terms,
    echo,
    examine,
    inconsistencies,
    is_ours,
    omissions,
    read_term,
)


@dataclass(frozen=True)
class Translation:
    """What another system's words on a step mean.

    Attributes:
        terms: The same in Pillion's terms.
        removals: Where the words stand that Pillion's replace.
        findings: What could not be carried over exactly, as warnings, and what could not at all, as errors.
    """

    terms: Terms
    removals: tuple[tuple[Document, Path_], ...] = ()
    findings: tuple[Finding, ...] = ()


Translator = Callable[[Step], Translation | None]


@dataclass(frozen=True)
class Intent:
    """A step that has a policy, or is to have one.

    Attributes:
        step: The step.
        terms: The whole policy, what the step inherits from its workflow included.
        retries: How often a preempted step is tried again, if somebody said so.
        inherits: Whether all of it comes from the workflow, so that nothing is to be written on the step.
        partial: Whether a workflow says only some of the terms, for steps that say the rest.
        removals: Words of another system to be removed.
        findings: Mistakes and warnings.
    """

    step: Step
    terms: Terms
    retries: int | None = None
    inherits: bool = False
    partial: bool = False
    removals: tuple[tuple[Document, Path_], ...] = ()
    findings: tuple[Finding, ...] = ()


def intent_of(step: Step, settings: Sequence[Setting], translator: Translator | None) -> Intent | None:
    """Work out what a step is to have; None if Pillion has no business with it."""
    own = any(map(is_ours, step.annotations))
    if not step.makes_pod:
        return _without_pod(step, settings)
    translation = translator(step) if translator else None
    inherits = not (own or settings or translation)
    if inherits and not any(map(is_ours, step.inherited)):
        return None
    parameters = step.platform == "argo"
    terms, problems = examine(step.effective, parameters=parameters)
    readable = not problems
    # What is wrong with an inherited annotation is reported where that stands.
    problems = [problem for problem in problems if problem.key in step.annotations]
    terms = terms.over(translation.terms) if translation else terms
    retries = None
    for setting in settings:
        terms = setting.terms.over(terms)
        retries = setting.retries if setting.retries is not None else retries
        problems += [] if parameters else _run_time(setting)
    missing = omissions(terms)
    if inherits and missing:
        return None  # the workflow says a part of a policy, for those of its steps that say the rest
    partial = step.shared and bool(missing)
    findings = list(translation.findings) if translation else []
    if readable and not problems and _sound(findings):
        problems += inconsistencies(terms) + ([] if partial else missing)
    findings += [_found(step, problem) for problem in (*problems, *_label(step))]
    removals = translation.removals if translation else ()
    if not step.shared and _sound(findings):
        findings += _of_containers(step, terms, removals)
    return Intent(step, terms, retries, inherits, partial, removals, tuple(findings))


def _sound(findings: Iterable[Finding]) -> bool:
    return all(finding.severity != "error" for finding in findings)


def _without_pod(step: Step, settings: Sequence[Setting]) -> Intent | None:
    findings = []
    for held, entries in (("annotations", step.annotations), ("labels", step.labels)):
        key = next(filter(is_ours, entries), None)
        if key is not None:
            problem = Problem("no-pod", f"{key} reaches no pod", step.why_no_pod, "move it", where=step.where)
            document = step.metadata_document or step.document
            findings.append(document.finding((*step.metadata_path, held, key), problem))
    for setting in settings:
        if setting.spells_out(step):
            problem = Problem(
                "no-pod", f"{setting.source} is set on a step that makes no pod", step.why_no_pod, where=step.where
            )
            findings.append(step.document.finding(step.path, problem))
    return Intent(step, Terms(), findings=tuple(findings)) if findings else None


def _run_time(setting: Setting) -> Iterator[Problem]:
    """Yield the parameters in a setting that is applied where there are none."""
    for term in TERMS:
        value = getattr(setting.terms, term.field)
        if isinstance(value, Parameter):
            try:
                read_term(term, value.text, subject=f"{term.name} in {echo(setting.source)}", parameters=False)
            except PolicyError as error:
                yield from (problem._replace(key=None) for problem in error.problems)


def _label(step: Step) -> Iterator[Problem]:
    value: Any = step.labels.get(MANAGED_LABEL, MANAGED_VALUE)
    if value != MANAGED_VALUE:
        yield Problem(
            "label-value", f"{MANAGED_LABEL} is {echo(value)}", f'it is "{MANAGED_VALUE}", as text, or absent',
            f'write "{MANAGED_VALUE}", in quotes', key=MANAGED_LABEL,
        )  # fmt: skip


def _of_containers(step: Step, terms: Terms, removals: Sequence[tuple[Document, Path_]]) -> Iterator[Finding]:
    container, problem = gpu_container(step, terms)
    if problem is not None:
        yield _found(step, problem)
    if container is not None:
        removed = {path for document, path in removals if document is step.document}
        contradiction = whole_gpu(step, container, removed)
        if contradiction is not None:
            yield step.document.finding(contradiction[0], contradiction[1].at(step.where))


def _found(step: Step, problem: Problem) -> Finding:
    """Return a problem at the annotation or label that it is about, or else at the step."""
    document = step.metadata_document or step.document
    held = "labels" if problem.key == MANAGED_LABEL else "annotations"
    present = step.labels if held == "labels" else step.annotations
    if problem.key is not None and problem.key in present:
        return document.finding((*step.metadata_path, held, problem.key), problem.at(step.where))
    if any(map(is_ours, step.annotations)):
        return document.finding((*step.metadata_path, "annotations"), problem.at(step.where))
    return step.document.finding(step.path, problem.at(step.where))


def written(terms: Terms, key_field: str) -> str | None:
    """Return one term in its canonical spelling, also if the contract's default says it; None if it is not said."""
    value = getattr(terms, key_field)
    if value is None:
        return None
    return value.text if isinstance(value, Parameter) else BY_FIELD[key_field].write(value)
