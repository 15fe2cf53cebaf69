"""`pillion compile` on good input: the spec, what it says on stderr, and the same as JSON."""

import json

import pytest

SPEC = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata:
  generateName: nightly-
spec:
  entrypoint: train  # the only step
  templates:
    - name: train
      metadata:
        annotations:
          pillion.dev/memory: 8Gi
          pillion.dev/priority: low
        labels:
          pillion.dev/managed: "true"
{class}      container:
        image: python:3.11-slim
        command: [python, -c, "print('training')"]
"""
CLASS = "      priorityClassName: pillion-low\n"
SETTING = ("--set", "train: memory=8192Mi,priority=low", "--set", "train: memory=8Gi")


def test_the_spec_goes_to_standard_output_and_the_report_to_standard_error(pillion, workflow):
    run = pillion("compile", "workflow.yaml", *SETTING)
    assert (run.code, run.out, run.err) == (0, SPEC.format_map({"class": CLASS}), "train: memory 8Gi, priority low\n")


def test_classes_that_the_cluster_does_not_have_can_be_left_out(pillion, workflow):
    run = pillion("compile", "workflow.yaml", *SETTING, "--no-priority-classes")
    assert (run.code, run.out) == (0, SPEC.format_map({"class": ""}))


def test_nothing_asked_for_changes_nothing_and_says_so(pillion, workflow):
    run = pillion("compile", "workflow.yaml")
    assert (run.code, run.out) == (0, workflow.read_text())
    assert run.err == "workflow.yaml: no step shares a GPU\n"


def test_standard_input_is_a_file_like_any_other(pillion, workflow):
    run = pillion("compile", "-", "--set", "train: share=0.5", stdin=workflow.read_text())
    assert run.code == 0
    assert 'pillion.dev/share: "0.5"' in run.out
    assert pillion("check", "-", stdin=run.out).code == 0


def test_the_report_as_json(pillion, workflow, tmp_path):
    run = pillion("compile", "workflow.yaml", "-o", "out.yaml", "--json", *SETTING)
    assert json.loads(run.out) == {
        "output": "out.yaml",
        "steps": [{"name": "train", "policy": {"memory": "8Gi", "priority": "low"}}],
        "findings": [],
    }
    assert (tmp_path / "out.yaml").read_text() == SPEC.format_map({"class": CLASS})


SEVERAL = """\
from hera.workflows import Container, Workflow

with Workflow(name="one", entrypoint="a") as one:
    Container(name="a", image="i")
with Workflow(name="two", entrypoint="b") as two:
    Container(name="b", image="i")
print("noise")
"""


def test_several_hera_workflows_become_one_file_unless_one_is_chosen(pillion, tmp_path):
    (tmp_path / "flows.py").write_text(SEVERAL)
    both = pillion("compile", "flows.py")
    assert both.code == 0
    assert both.out.count("kind: Workflow") == 2
    assert "noise" not in both.out
    assert "noise" in both.err
    one = pillion("compile", "flows.py", "--pipeline", "two")
    assert (one.out.count("kind: Workflow"), "name: two" in one.out) == (1, True)


@pytest.mark.parametrize("arguments", [["--pipeline", "three"], ["--no-priority-classes"]])
def test_what_a_program_cannot_be_asked_is_misuse(pillion, tmp_path, arguments):
    (tmp_path / "flows.py").write_text(SEVERAL)
    assert pillion("compile", "flows.py", *arguments).code == 2


def test_every_subcommand_explains_itself(pillion):
    for command in ([], ["compile"], ["check"]):
        run = pillion(*command, "--help")
        assert run.code == 0
        assert "Exit codes" in run.out
    assert pillion("--version").out.startswith("pillion ")
