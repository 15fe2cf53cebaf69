"""Rules about files: what `pillion check` finds."""

from __future__ import annotations

from pillion.check.catalogue.rule import Rule
from pillion.policy import TERMS

_DOCUMENT = (
    Rule(
        "yaml-syntax", "document", "The text is neither YAML nor JSON.", "Mend the line; indent with spaces, not tabs."
    ),
    Rule("empty-file", "document", "The file holds no document.", "Remove the file, or write a manifest into it."),
    Rule("not-text", "document", "The file is binary, or is not UTF-8.", "Save it as UTF-8 text."),
    Rule("file-too-large", "document", "The file is larger than any manifest.", "Split it."),
    Rule(
        "not-a-mapping",
        "document",
        "A document is a list or a single value.",
        "Begin it with `apiVersion:` and `kind:`.",
    ),
    Rule("yaml-bomb", "document", "Aliases multiply the document's size.", "Write the values out."),
    Rule("nested-too-deep", "document", "Values nest deeper than any kind needs.", "Check the indentation."),
    Rule(
        "duplicate-key", "document", "A key stands twice in one mapping; tools disagree on which counts.", "Remove one."
    ),
    Rule("key-not-text", "document", "A mapping's key is a list or a mapping.", "Keys are text: `name: value`."),
)

_FIELDS = (
    Rule("unknown-kind", "fields", "The kind is missing, or a misspelt one that Pillion knows.", "`kind: Workflow`"),
    Rule(
        "unknown-version",
        "fields",
        "A kind that Pillion knows has an apiVersion that it does not have.",
        "`apiVersion: argoproj.io/v1alpha1`",
    ),
    Rule(
        "unknown-field",
        "fields",
        "No such field exists here; the API server drops it or refuses the object.",
        "Correct the name, as `contaner:` to `container:`, or the indentation.",
    ),
    Rule(
        "wrong-kind",
        "fields",
        "A field's value is of the wrong kind, such as a mapping where a list must be.",
        'Write `value: "8080"` for text that looks like a number.',
    ),
    Rule(
        "unquoted-text",
        "fields",
        "Text in an Argo spec looks like a number or a boolean: `argo submit` takes it, the API server refuses it.",
        'Put it in quotes: `value: "8080"`.',
        "warning",
    ),
)

_CONTRACT = (
    *(
        Rule(
            term.code,
            "contract",
            f"The value of `{term.key}` cannot be read.",
            f"Write {term.values}.",
        )
        for term in TERMS
    ),
    Rule(
        "not-a-string",
        "contract",
        "An annotation's value is not text.",
        'Put it in quotes: `pillion.dev/share: "0.5"`.',
    ),
    Rule(
        "unknown-key",
        "contract",
        "No such annotation is known.",
        "Correct the name, as `pillion.dev/shares` to `pillion.dev/share`.",
    ),
    Rule(
        "managed-is-a-label",
        "contract",
        "`pillion.dev/managed` stands among the annotations.",
        'Move it to the labels: `pillion.dev/managed: "true"`.',
    ),
    Rule(
        "limit-below-share",
        "contract",
        "The limit is less than the share that is guaranteed.",
        "Raise the limit or lower the share.",
    ),
    Rule(
        "only-on-high",
        "contract",
        "max-slowdown or max-stall on a step that is not high.",
        'Remove it, or say `pillion.dev/priority: "high"`.',
    ),
    Rule("missing-share", "contract", "A high or normal step says no share.", 'Add `pillion.dev/share: "0.5"`.'),
    Rule(
        "missing-memory",
        "contract",
        "A low step says no memory, which is all that it reserves.",
        'Add `pillion.dev/memory: "4Gi"`.',
    ),
    Rule(
        "kfp-parameter",
        "contract",
        "A KFP run-time value in a policy; it cannot reach an annotation.",
        "Use a constant, or one task per value under `dsl.If`.",
    ),
    Rule("parameter-not-allowed", "contract", "A run-time parameter outside Argo and Hera.", "Use a constant."),
    Rule(
        "unknown-parameter",
        "contract",
        "An annotation uses an Argo parameter that this template does not have.",
        "Declare it below `inputs.parameters`, and pass it from the step or task.",
    ),
    Rule(
        "unresolved-parameter",
        "contract",
        "A pod is created with a parameter that nothing filled in.",
        "Check that the parameter exists and is spelt right.",
    ),
)

_PLACEMENT = (
    Rule(
        "ignored-place",
        "placement",
        "Annotations or labels stand where no pod gets them from.",
        "Move them to the `metadata` of the template or pod template, or to the workflow's `podMetadata`.",
    ),
    Rule(
        "no-pod",
        "placement",
        "A policy on a step that runs no container of its author's.",
        "Put it on the steps that do.",
    ),
    Rule(
        "helper-pod",
        "placement",
        "A policy for all pods of a workflow also holds for a resource or data template's pod, which needs no GPU.",
        "Put the policy on the templates that need it.",
        "warning",
    ),
    Rule(
        "unknown-executor",
        "placement",
        "KFP's platform document configures an executor that its pipeline does not have.",
        "Use the executor's label in the first document; compile again.",
    ),
    Rule(
        "missing-label",
        "placement",
        "A step has a policy and not the label, so Pillion never sees its pods.",
        'Add the label `pillion.dev/managed: "true"`; `pillion compile` does.',
    ),
    Rule("label-value", "placement", "The label's value is not `true`.", 'Write `pillion.dev/managed: "true"`.'),
    Rule(
        "label-without-policy",
        "placement",
        "A step has the label and no policy.",
        "Add the annotations, or remove the label.",
    ),
    Rule(
        "unknown-label",
        "placement",
        "A label in Pillion's name space that means nothing.",
        "The only label is `pillion.dev/managed`; the rest are annotations.",
    ),
)

_CONTAINERS = (
    Rule(
        "unknown-container",
        "containers",
        "`pillion.dev/container` names no container of the pod.",
        "Name one that exists.",
    ),
    Rule(
        "which-container",
        "containers",
        "The pod has several containers, and nothing says which gets the GPU.",
        'Add `pillion.dev/container: "trainer"`.',
    ),
    Rule(
        "whole-gpu",
        "containers",
        "A container asks for whole GPUs and for a share of one.",
        "Remove `nvidia.com/gpu` from its resources, or the policy.",
    ),
)

_PREEMPTION = (
    Rule(
        "no-retries",
        "preemption",
        "A step that may be evicted is not tried again.",
        "Give it retries: `retryStrategy: {limit: 5, retryPolicy: Always}`.",
    ),
    Rule(
        "no-time-for-retries",
        "preemption",
        "The time for retries is zero, so none ever happens.",
        'Remove `maxDuration`, or write `"604800"`; in KFP `backoffMaxDuration: 604800s`.',
    ),
    Rule(
        "short-time-for-retries",
        "preemption",
        "Retries end an hour after the first attempt, or sooner: a step evicted later is lost.",
        'Write `maxDuration: "604800"`; in KFP `backoffMaxDuration: 604800s`.',
        "warning",
    ),
    Rule(
        "retry-policy",
        "preemption",
        "An evicted step may end as Error (pod deleted), which this policy does not retry.",
        "Write `retryPolicy: Always`.",
        "warning",
    ),
    Rule("evicted-for-good", "preemption", "A bare Pod that is evicted is not created again.", "Use a Job.", "warning"),
    Rule(
        "on-preempt-on-high",
        "preemption",
        "on-preempt on a high step, which nothing preempts.",
        "Remove it.",
        "warning",
    ),
    Rule(
        "priority-class",
        "preemption",
        "The priority class is another tier's.",
        "Write the tier's own: `priorityClassName: pillion-low`.",
    ),
    Rule(
        "other-priority-class",
        "preemption",
        "A priority class of others, which Pillion replaces by the tier's.",
        "Remove it.",
        "warning",
    ),
)

_REFERENCES = (
    Rule("duplicate-template", "references", "Two templates of a workflow have the same name.", "Rename one."),
    Rule(
        "unknown-template",
        "references",
        "A step, task, hook or entrypoint names a template that the workflow lacks.",
        "Correct the name, or refer to another workflow's with `templateRef`.",
    ),
)

_KFP = (
    Rule(
        "kfp-policy-leak",
        "kfp",
        "An executor has another step's policy, or lost its own: KFP mixes up steps of nested pipelines.",
        "Give one of the two components of the same name another name.",
    ),
    Rule(
        "kfp-shared-executor",
        "kfp",
        "KFP put two components with policies of their own on one executor.",
        "Give one of the two components another name.",
    ),
)

_TRANSLATION = (
    Rule(
        "foreign-words",
        "translation",
        "A GPU is shared in the words of KAI Scheduler, HAMi or NVIDIA's device plugin.",
        "`pillion compile --from kai FILE` translates them.",
        "warning",
    ),
    Rule(
        "foreign-words-beside-policy",
        "translation",
        "Two systems are asked to share the same GPU.",
        "Keep one of the two.",
    ),
    Rule(
        "cannot-translate",
        "translation",
        "A word has no counterpart, or a value that its own system refuses.",
        "Mend the value, or say the policy with `--set` instead.",
    ),
    Rule(
        "inexact-translation",
        "translation",
        "A word was translated to something that is not quite the same; the step never gets less.",
        "Add `--set 'STEP: share=…,memory=…'` to say it exactly.",
        "warning",
    ),
)

RULES = (
    *_DOCUMENT, *_FIELDS, *_CONTRACT, *_PLACEMENT, *_CONTAINERS, *_PREEMPTION, *_REFERENCES, *_KFP, *_TRANSLATION,
)  # fmt: skip
