"""Each sample, compiled by the real command, carries exactly the policies that its text promises."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "samples"
PILLION = Path(sys.executable).with_name("pillion")
FILES = sorted(path.name for path in SAMPLES.iterdir() if path.suffix in (".py", ".yaml"))

LABEL = {"pillion.dev/managed": "true"}
ALWAYS = {"limit": 5, "retryPolicy": "Always"}


def compile_(name, *options):
    run = subprocess.run(
        [PILLION, "compile", SAMPLES / name, *options], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return list(yaml.safe_load_all(run.stdout))


def policy(metadata):
    """Return a pod's terms without their prefix, having checked that it has the label if and only if it has any."""
    annotations = (metadata or {}).get("annotations", {})
    terms = {
        key.removeprefix("pillion.dev/"): value for key, value in annotations.items() if key.startswith("pillion.dev/")
    }
    labels = {key: value for key, value in (metadata or {}).get("labels", {}).items() if key.startswith("pillion.dev/")}
    assert labels == (LABEL if terms else {})
    return terms


def argo(spec):
    """Return {template: (policy, retry strategy)} of the templates that run something."""
    return {
        template["name"]: (policy(template.get("metadata")), template.get("retryStrategy"))
        for template in spec["templates"]
        if "container" in template or "script" in template
    }


def kfp(documents):
    """Return {task: (policy, retry policy)} of the tasks of a compiled pipeline, those of sub-pipelines included."""
    pipeline, platform = documents
    configs = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    found = {}
    for component in (pipeline["root"], *pipeline["components"].values()):
        for name, task in component.get("dag", {}).get("tasks", {}).items():
            label = pipeline["components"][task["componentRef"]["name"]].get("executorLabel")
            if label is not None:
                found[name] = (policy(configs.get(label, {}).get("podMetadata")), task.get("retryPolicy"))
    return found


def kfp_retry(count):
    return {"backoffDuration": "0s", "backoffFactor": 2.0, "backoffMaxDuration": "604800s", "maxRetryCount": count}


def test_kfp_training_shares_as_low_and_evaluates_as_high():
    assert kfp(compile_("kfp_training.py")) == {
        "train": ({"memory": "8Gi", "on-preempt": "evict", "priority": "low"}, kfp_retry(5)),
        "smallest": ({}, None),
        "evaluate": ({"memory": "4Gi", "priority": "high", "share": "0.5"}, None),
    }


def test_hera_nightly_training_gives_way_to_online_inference():
    nightly, inference = compile_("hera_nightly.py")
    assert (nightly["kind"], inference["kind"]) == ("CronWorkflow", "WorkflowTemplate")
    assert argo(nightly["spec"]["workflowSpec"]) == {
        "train": (
            {"memory": "16Gi", "on-preempt": "suspend", "priority": "low"},
            {"limit": "5", "retryPolicy": "Always"},
        ),
    }
    assert argo(inference["spec"]) == {
        "serve": ({"max-stall": "5ms", "memory": "24Gi", "priority": "high", "share": "0.8"}, None),
    }


def test_every_argument_arrives():
    capped = {"container": "main", "limit": "0.5", "memory": "6Gi", "share": "0.25"}
    assert kfp(compile_("every_argument.py")) == {
        "work": ({**capped, "on-preempt": "suspend", "priority": "low"}, kfp_retry(2)),
        "urgent": (
            {"max-slowdown": "2.5%", "max-stall": "20ms", "memory": "8Gi", "priority": "high", "share": "0.5"}, None,
        ),
        "work-2": ({"memory": "2Gi", "on-preempt": "suspend", "priority": "low"}, kfp_retry(2)),
        "work-3": ({**capped, "on-preempt": "evict", "priority": "normal"}, kfp_retry(3)),
        "work-4": ({}, None),
    }  # fmt: skip


def test_argo_yaml_needs_no_compiling():
    (workflow,) = compile_("argo_training.yaml")
    assert argo(workflow["spec"]) == {
        "train": ({"memory": "8Gi", "on-preempt": "evict", "priority": "low"}, ALWAYS),
        "evaluate": ({"memory": "4Gi", "priority": "high", "share": "0.5"}, None),
    }
    assert workflow == yaml.safe_load((SAMPLES / "argo_training.yaml").read_text())


def test_a_kubernetes_job_needs_no_compiling():
    (job,) = compile_("kubernetes_job.yaml")
    assert policy(job["spec"]["template"]["metadata"]) == {"memory": "6Gi", "on-preempt": "evict", "priority": "low"}
    assert job == yaml.safe_load((SAMPLES / "kubernetes_job.yaml").read_text())


def test_words_of_kai_are_translated():
    (workflow,) = compile_("from_kai.yaml", "--from", "kai")
    tune, report = (policy(template["metadata"]) for template in workflow["spec"]["templates"][1:])
    assert tune == {"priority": "normal", "share": "0.5"}
    assert report["memory"] == "2048Mi"
    text = yaml.safe_dump(workflow)
    assert "gpu-fraction" not in text
    assert "gpu-memory" not in text


@pytest.mark.parametrize("name", FILES)
def test_the_checker_finds_nothing_to_mend(name):
    run = subprocess.run([PILLION, "check", SAMPLES / name], capture_output=True, text=True, check=False, cwd=ROOT)
    assert run.returncode == 0, run.stdout
    assert "error[" not in run.stdout
    # The only warning is the one that the sample for KAI is there to show.
    warned = set(re.findall(r"warning\[([a-z-]+)\]", run.stdout))
    assert bool(warned) == (name == "from_kai.yaml"), run.stdout


def test_every_sample_is_listed_in_the_readme():
    listed = set(re.findall(r"\]\(([a-z_]+\.(?:py|yaml))\)", (SAMPLES / "README.md").read_text()))
    assert listed == set(FILES)
