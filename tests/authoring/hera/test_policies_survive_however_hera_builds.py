"""Hooks, resets, subclasses, inline templates, copies, postponed annotations, late imports: the policy is there."""

import copy
import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from hera.shared import global_config, register_pre_build_hook
from hera.workflows import (
    DAG,
    Container,
    Parameter,
    Script,
    Step,
    Steps,
    Task,
    Workflow,
    WorkflowTemplate,
    models,
    script,
)

from pillion import PolicyError, defaults, gpu_share
from pillion.authoring.hera import building

HALF = ({"priority": "normal", "share": "0.5"}, "pillion-normal", None)
HALF_METADATA = {
    "annotations": {"pillion.dev/priority": "normal", "pillion.dev/share": "0.5"},
    "labels": {"pillion.dev/managed": "true"},
}


@gpu_share(0.5)
@script(image="i")
def train():
    """Train."""


def half(name="train", kind=Container, **more):
    return gpu_share(0.5)(kind(name=name, image="i", **more))


def workflow_of(*templates):
    return Workflow(name="nightly", entrypoint="train", templates=list(templates))


def test_a_reset_of_heras_configuration(policy_of):
    with Workflow(name="nightly", entrypoint="train") as nightly:
        train()
        half("other")
    with defaults(priority="low"):
        global_config.reset()
        low = workflow_of(gpu_share(0.5, memory="1Gi")(Container(name="train", image="i")))
    global_config.reset()
    assert policy_of(nightly) == {"train": HALF, "other": HALF}
    assert policy_of(low)["train"][1] == "pillion-low"


def test_the_authors_own_hooks_run_first_and_are_merged(templates):
    seen = []

    @register_pre_build_hook
    def label(template: Script) -> Script:
        seen.append(template.name)
        template.labels = {"app": "nightly"}
        return template

    @register_pre_build_hook
    def copied(template: Container) -> Container:
        template = copy.copy(template)
        template.image = "registry/" + template.image
        return template

    with Workflow(name="nightly", entrypoint="train") as nightly:
        train()
        half("other")
    built = templates(nightly)
    assert built["train"]["metadata"] == {
        "annotations": HALF_METADATA["annotations"],
        "labels": {"app": "nightly", "pillion.dev/managed": "true"},
    }
    assert built["other"]["metadata"] == HALF_METADATA
    assert built["other"]["container"] == {"image": "registry/i"}
    assert set(seen) == {"train"}


def test_a_hook_may_be_what_applies_the_policy(policy_of):
    @register_pre_build_hook
    def every_script(template: Script) -> Script:
        return gpu_share(0.5)(copy.copy(template))

    def work():
        pass

    nightly = workflow_of(Script(name="train", image="i", source=work))
    assert policy_of(nightly) == {"train": HALF}


@dataclass(kw_only=True)
class OurContainer(Container):
    """As a team's library has it."""

    team: str = "vision"


class OurScript(Script):
    """Builds its template without asking its base class."""

    def _build_template(self):
        return models.Template(
            name=self.name, script=models.ScriptTemplate(image="ours", source="print()"), inputs=self._build_inputs()
        )


class OurWorkflow(Workflow):
    def build(self):
        built = super().build()
        built.metadata.labels = {"team": "vision"}
        return built


def test_subclasses_of_templates(policy_of):
    def work():
        pass

    gpu_share(0.5)(work)
    nightly = workflow_of(
        half(kind=OurContainer), OurScript(name="by-function", source=work), half("script", OurScript, source="print()")
    )
    assert policy_of(nightly) == {"train": HALF, "by-function": HALF, "script": HALF}


def test_subclasses_of_workflows(policy_of):
    nightly = OurWorkflow(name="nightly", kind="Workflow", entrypoint="train", templates=[half()])
    assert policy_of(nightly) == {"train": HALF}
    low = defaults(priority="low", memory="1Gi")(
        OurWorkflow(name="low", kind="Workflow", templates=[Container(name="train", image="i")])
    )
    assert policy_of(low)["train"][1] == "pillion-low"


def test_templates_that_stand_inline_in_a_task_or_step(templates):
    def call(kind, inline):
        return kind(name="first", inline=inline)

    built = templates(
        workflow_of(
            DAG(name="dag", tasks=[call(Task, half("inline")), Task(name="second", template="steps")]),
            Steps(name="steps", sub_steps=[call(Step, half("inline")), [Step(name="second", template="train")]]),
            half(),
        )
    )
    inline = {
        "name": "inline",
        "container": {"image": "i"},
        "metadata": HALF_METADATA,
        "priorityClassName": "pillion-normal",
    }
    assert built["dag"] == {
        "name": "dag",
        "dag": {"tasks": [{"name": "first", "inline": inline}, {"name": "second", "template": "steps"}]},
    }
    assert built["steps"] == {
        "name": "steps",
        "steps": [[{"name": "first", "inline": inline}], [{"name": "second", "template": "train"}]],
    }


def test_inline_templates_take_defaults_too(templates):
    nightly = workflow_of(DAG(name="dag", tasks=[Task(name="first", inline=Container(image="i"))]))
    defaults(priority="low", memory="1Gi")(nightly)
    (task,) = templates(nightly)["dag"]["dag"]["tasks"]
    assert task["inline"]["priorityClassName"] == "pillion-low"


def test_mistakes_in_an_inline_template_are_told_with_its_place():
    nightly = workflow_of(
        DAG(name="dag", tasks=[Task(name="first", inline=gpu_share(memory="1Gi")(Container(image="i")))])
    )
    with pytest.raises(PolicyError, match=r'^inline template "first" of "dag": a normal step says no share'):
        nightly.build()


def test_parts_in_argos_own_form_are_not_changed_in_place(templates):
    task = models.DAGTask(name="first", inline=models.Template(name="inline", container=models.Container(image="i")))
    dag = DAG(name="dag", tasks=[task])
    form = models.Template(name="train", container=models.Container(image="i"))
    nightly = defaults(priority="low", memory="1Gi")(workflow_of(dag, form))
    before = (task.model_copy(deep=True), form.model_copy(deep=True))
    built = templates(nightly)
    assert built["train"]["priorityClassName"] == "pillion-low"
    assert built["dag"]["dag"]["tasks"][0]["inline"]["priorityClassName"] == "pillion-low"
    assert (task, form) == before


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_of_a_template(copied, policy_of):
    other = copied(half())
    other.name = "other"
    assert policy_of(workflow_of(half(), other)) == {"train": HALF, "other": HALF}


def test_a_dag_with_templates_inside_another(policy_of):
    inner = DAG(name="inner")
    with Workflow(name="nightly", entrypoint="all") as nightly:
        with inner:
            train()
        with Steps(name="all") as steps, steps.parallel():
            inner(name="one")
            half("other")(name="two")
    assert policy_of(nightly) == {"train": HALF, "other": HALF}


def test_a_module_with_postponed_annotations(policy_of):
    path = Path(__file__).with_name("postponed_annotations.py")
    spec = importlib.util.spec_from_file_location("postponed_annotations", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert policy_of(module.make()) == {"above": HALF, "below": HALF, "container": HALF}


def test_inputs_of_functions_count_as_the_templates(policy_of):
    @gpu_share("{{inputs.parameters.share}}")
    @script(image="i", inputs=[Parameter(name="share", default="0.5")])
    def tuned(rate: float):
        print(rate)

    with WorkflowTemplate(name="nightly", entrypoint="tuned") as nightly:
        tuned()
    assert policy_of(nightly)["tuned"][0]["share"] == "{{inputs.parameters.share}}"


LATE = {
    "functions": """
from pillion import gpu_share
@gpu_share(0.5)
def train(): pass
from hera.workflows import Workflow, script
step = script(image="i")(train)
with Workflow(name="nightly", entrypoint="train") as nightly:
    step()
""",
    "block": """
import pillion
with pillion.defaults(share=0.5):
    from hera.workflows import Container, Workflow
    nightly = Workflow(name="nightly", entrypoint="train", templates=[Container(name="train", image="i")])
""",
}


@pytest.mark.parametrize("code", LATE.values(), ids=LATE.keys())
def test_hera_may_be_imported_after_the_decorators_were_used(code, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(code + "import json; print(json.dumps(nightly.to_dict()))\n")
    run = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    (template,) = json.loads(run.stdout)["spec"]["templates"]
    assert template["metadata"] == HALF_METADATA


def test_a_hera_that_is_made_differently_is_refused(monkeypatch):
    monkeypatch.delattr(building.TemplateMixin, "_dispatch_hooks")
    monkeypatch.delattr("hera.workflows._meta_mixins.HookMixin._dispatch_hooks")
    with pytest.raises(RuntimeError, match=r"^Hera 7\.\d+\.\d+ has no TemplateMixin._dispatch_hooks"):
        gpu_share(0.5)(Container(name="train", image="i"))
