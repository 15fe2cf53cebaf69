"""Rules about Python: what decorators and `pillion compile` refuse or warn of."""

from __future__ import annotations

from pillion.check.catalogue.rule import Rule

_DECORATORS = (
    Rule(
        "retries-value", "decorators", "`priority(retries=)` is not a count of retries.", '`priority("low", retries=5)`'
    ),
    Rule(
        "directive-twice",
        "decorators",
        "One object carries the same decorator twice.",
        "Merge the two; to differ for one step, apply it to the task.",
    ),
    Rule(
        "defaults-target",
        "decorators",
        "`defaults` is applied to something that has no steps.",
        "Apply it to a pipeline's or workflow's function, or use `with pillion.defaults(…):`.",
    ),
    Rule(
        "defaults-out-of-reach",
        "decorators",
        "Defaults stand where they reach no step.",
        "Make the calls inside the block, or apply the defaults to the workflow.",
    ),
    Rule(
        "defaults-nested",
        "decorators",
        "Defaults surround a nested pipeline, which is compiled already.",
        "Put `@pillion.defaults(…)` below the nested pipeline's own `@dsl.pipeline`.",
    ),
    Rule(
        "not-a-template",
        "decorators",
        "In Hera: the object is no template that runs a container.",
        "Apply the decorators to a script or a Container.",
    ),
    Rule(
        "parameter-declaration",
        "decorators",
        "In Hera: a parameter's declaration is given where its value is meant.",
        '`gpu_share("{{inputs.parameters.share}}", …)`',
    ),
    Rule(
        "policy-lost",
        "decorators",
        "In Hera: a template of the same name, without this policy, is already in the workflow.",
        "Apply the decorators before the first call; give different templates different names.",
    ),
    Rule(
        "calls-differ",
        "decorators",
        "In Hera: calls of one template stand in blocks of different defaults.",
        "Apply the decorators to the template, or move its calls into one block.",
    ),
    Rule(
        "annotation-differs",
        "decorators",
        "An annotation of the author's own and the decorators say different things.",
        "Say it with the decorators only.",
    ),
    Rule(
        "kfp-no-step",
        "decorators",
        "In KFP: the object is neither a component nor a task.",
        "Apply the decorators to a component, or call them on a task.",
    ),
    Rule(
        "kfp-importer",
        "decorators",
        "In KFP: an importer runs no container and needs no GPU.",
        "Remove the decorators.",
    ),
    Rule(
        "kfp-pipeline",
        "decorators",
        "In KFP: a pipeline is no step.",
        "For all of its steps, put `@pillion.defaults(…)` below `@dsl.pipeline`.",
    ),
    Rule(
        "kfp-too-late",
        "decorators",
        "In KFP: the task's pipeline is compiled already.",
        "Apply the decorators in the pipeline's function.",
    ),
    Rule("kfp-container", "decorators", "In KFP: a step's only container is called `main`.", "Leave `container=` out."),
)

_COMPILE = (
    Rule(
        "no-such-step",
        "compile",
        "`--set` matches no step.",
        "Compare the expression with the names that the message lists; it has to match a whole name.",
    ),
    Rule(
        "own-retries",
        "compile",
        "The author's own retries stay, and the policy's are left out.",
        "Remove one of the two.",
        "warning",
    ),
    Rule(
        "kfp-json",
        "compile",
        "A KFP pipeline in JSON has no room for the second document that holds policies.",
        "Compile it to YAML.",
    ),
    Rule(
        "kfp-passthrough",
        "compile",
        "A KFP component hands its environment on, and with it the mark of its policy.",
        "Add `TaskConfigPassthrough(field=TaskConfigField.ENV, apply_to_task=True)`.",
    ),
    Rule(
        "shared-anchor",
        "compile",
        "The value to be changed is used elsewhere too, through its anchor.",
        "Write the value out where it is used.",
    ),
    Rule(
        "cannot-edit",
        "compile",
        "The document is written in a way that nothing can be added to in place.",
        "Rewrite it in plain block style.",
    ),
)

_PROGRAMS = (
    Rule("program-failed", "programs", "The Python file fails when it is run.", "Run it with Python and mend it."),
    Rule("no-pipeline", "programs", "The Python file defines no pipeline.", "Define it at module level."),
    Rule("not-a-program", "programs", "The file is no Python program.", "Name it `*.py`."),
)

RULES = (*_DECORATORS, *_COMPILE, *_PROGRAMS)
