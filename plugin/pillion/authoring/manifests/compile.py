"""Completing the policies of a manifest: everything that a step needs to be scheduled as it says, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pillion.authoring.findings import Finding, ManifestError, Position
from pillion.authoring.manifests import emit, kfp_ir
from pillion.authoring.manifests.changes import changed
from pillion.authoring.manifests.document import Document, parse, without_collector
from pillion.authoring.manifests.intent import Intent, Translator, intent_of
from pillion.authoring.manifests.layout import indent_unit, line_break
from pillion.authoring.manifests.page import Edit
from pillion.authoring.manifests.rewrite import (
    Revision,
    policy_annotations,
    write_metadata,
    write_priority_class,
    write_retries,
)
from pillion.authoring.manifests.settings import Setting, names_of
from pillion.authoring.manifests.splice import edits_for, spliced
from pillion.authoring.manifests.steps import Step, grouped, steps
from pillion.authoring.translate import TRANSLATORS
from pillion.policy import PREFIX, Problem

_BYTE_ORDER_MARK = "\ufeff"
_OURS = re.compile(re.escape(PREFIX.rstrip("/")), re.IGNORECASE)
_MAX_NAMED = 20  # steps that one message names


@dataclass(frozen=True)
class Compiled:
    """A compiled manifest.

    Attributes:
        text: The same object as was given if nothing had to change.
        findings: Warnings.
        policies: The annotations of every step that has a policy, by the step's name, in the order of the file.
    """

    text: str
    findings: tuple[Finding, ...] = ()
    policies: tuple[tuple[str, Mapping[str, str]], ...] = ()


def compile_text(
    text: str,
    file: str,
    settings: Sequence[Setting] = (),
    translate: str | None = None,
    *,
    priority_classes: bool = True,
) -> Compiled:
    """Complete the policies in a YAML or JSON manifest.

    Annotations that are there are validated and spelt canonically; the label, the priority class and, for steps that
    may be evicted, retries are added where they are missing. A setting changes the terms that it says and leaves the
    others of a step as they are; of several settings the last wins. Translated words give way to Pillion's own.

    Args:
        text: The manifest.
        file: The name that messages use.
        settings: What `--set` says.
        translate: Whose words to translate: a key of `TRANSLATORS`; None for nobody's.
        priority_classes: Whether to name the tiers' PriorityClasses; a cluster refuses pods whose class it lacks.

    Raises:
        ManifestError: With every mistake in the manifest; or a setting matches no step.
    """
    body = text.removeprefix(_BYTE_ORDER_MARK)
    with without_collector():
        translator = TRANSLATORS[translate] if translate else None
        compiler = _Compiler(body, file, settings, translator, priority_classes)
        for group in grouped(parse(body, file)):
            compiler.add(group)
        compiler.finish()
    if compiler.edits:
        mark = text[: len(text) - len(body)]
        text = mark + spliced(body, compiler.edits)
    return Compiled(text, tuple(_ordered(compiler.warnings)), tuple(compiler.policies))


@dataclass
class _Compiler:
    text: str
    file: str
    settings: Sequence[Setting]
    translator: Translator | None
    priority_classes: bool
    edits: list[Edit] = field(default_factory=list)
    errors: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)
    policies: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    matched: set[str] = field(default_factory=set)
    names: dict[str, None] = field(default_factory=dict)

    def add(self, group: tuple[Document, ...]) -> None:
        """Work on the documents that belong together."""
        asked = self.settings or self.translator or _OURS.search(self.text, group[0].start, group[-1].end)
        if not asked:
            return
        found = steps(group)
        intents = [intent for step in found if (intent := intent_of(step, self._settings_of(step), self.translator))]
        if not intents:
            return
        self.errors += [problem for document in group for problem in document.problems]
        findings = [finding for intent in intents for finding in intent.findings]
        findings += kfp_ir.strayed(found)
        revision = Revision()
        if not any(finding.severity == "error" for finding in findings):
            findings += self._rewrite(intents, revision)
        mistakes = [finding for finding in findings if finding.severity == "error"]
        self.errors += mistakes
        self.warnings += [finding for finding in findings if finding.severity == "warning"]
        if not mistakes:
            self._splice(group[0], revision)

    def finish(self) -> None:
        """Complain about all that was wrong.

        Raises:
            ManifestError: Something was.
        """
        for setting in self.settings:
            if setting.source not in self.matched:
                self.errors.append(self._unmatched(setting))
        if self.errors:
            raise ManifestError(_ordered(self.errors))

    def _settings_of(self, step: Step) -> list[Setting]:
        matching = [setting for setting in self.settings if setting.matches(step)]
        if self.settings and step.makes_pod and not step.shared:
            self.names.update(dict.fromkeys(names_of(step)))
        for setting in matching:
            if step.makes_pod or setting.spells_out(step):
                self.matched.add(setting.source)
        return matching

    def _rewrite(self, intents: list[Intent], revision: Revision) -> list[Finding]:
        findings: list[Finding] = []
        labelled: set[tuple[int, object]] = set()
        for intent in intents:
            step = intent.step
            workflow = (id(step.document), step.root)
            write_metadata(intent, revision, labelled=workflow in labelled)
            if step.platform == "kfp":
                findings += kfp_ir.passed_on(step)
                kfp_ir.write_hash(intent, revision)
                findings += kfp_ir.write_retry_policies(intent, revision)
            else:
                if self.priority_classes:
                    findings += write_priority_class(intent, revision)
                findings += write_retries(intent, revision)
            if step.shared and not intent.partial:
                labelled.add(workflow)
            elif not step.shared:
                self.policies.append((step.name, policy_annotations(intent)))
        return findings

    def _splice(self, first: Document, revision: Revision) -> None:
        try:
            for document, changes in revision.changes.values():
                if changes:
                    self.edits += edits_for(self.text, document, changes)
            if revision.platform:
                self.edits.append(self._platform_document(first, revision))
        except ManifestError as error:
            self.errors += error.findings

    def _platform_document(self, pipeline: Document, revision: Revision) -> Edit:
        if pipeline.node.flow_style:
            problem = Problem(
                "kfp-json", "this pipeline is JSON", "a policy stands in a second document, which JSON has no room for",
                "compile the pipeline to a .yaml file",
            )  # fmt: skip
            raise ManifestError([pipeline.finding((), problem)])
        newline = line_break(self.text)
        lines = ["---", *emit.block_mapping(changed({}, revision.platform), "", indent_unit(pipeline.node))]
        begun = newline if pipeline.end and self.text[pipeline.end - 1] != "\n" else ""
        return Edit(pipeline.end, pipeline.end, begun + "".join(f"{line}{newline}" for line in lines))

    def _unmatched(self, setting: Setting) -> Finding:
        names = list(self.names)
        shown = ", ".join(names[:_MAX_NAMED]) + (
            f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        )
        problem = Problem(
            "no-such-step", f"no step's whole name matches {setting.pattern.pattern}",
            f"the steps that make a pod are {shown}" if names else "there is no step that makes a pod",
        )  # fmt: skip
        return Finding(self.file, None, problem)


def _ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order of the file, each once: two references may lead to one place."""
    return sorted(dict.fromkeys(findings), key=lambda finding: finding.position or Position(0, 0))
