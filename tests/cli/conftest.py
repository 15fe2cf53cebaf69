"""Runs the real `pillion` command in a folder of its own."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Run:
    code: int
    out: str
    err: str


@pytest.fixture
def pillion(tmp_path):
    """Run `pillion ARGUMENTS` in a temporary folder. No run may ever show a traceback."""
    command = Path(sys.executable).with_name("pillion")

    def run(*arguments, stdin=None, **options):
        done = subprocess.run(
            [command, *map(str, arguments)], cwd=tmp_path, capture_output=True, input=stdin, text=True, timeout=120,
            check=False, **options,
        )  # fmt: skip
        assert "Traceback" not in done.stderr + done.stdout, done.stderr
        return Run(done.returncode, done.stdout, done.stderr)

    return run


WORKFLOW = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata:
  generateName: nightly-
spec:
  entrypoint: train  # the only step
  templates:
    - name: train
      container:
        image: python:3.11-slim
        command: [python, -c, "print('training')"]
"""


@pytest.fixture
def workflow(tmp_path):
    """A workflow that shares nothing yet."""
    path = tmp_path / "workflow.yaml"
    path.write_text(WORKFLOW)
    return path
