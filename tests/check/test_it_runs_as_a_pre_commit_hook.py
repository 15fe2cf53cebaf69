"""`.pre-commit-hooks.yaml` names a command that does what pre-commit needs: many files at once, 1 if any is wrong."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DEFECTS = ROOT / "tests" / "check" / "defects"


@pytest.fixture(scope="module")
def hook():
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    return hook


def run(hook, *files):
    """Run the hook as pre-commit does: its entry and the files of the commit, from the top of the repository."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [*shlex.split(hook["entry"]), *hook.get("args", []), *(str(file.relative_to(ROOT)) for file in files)],
        cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_hook_is_what_pre_commit_expects(hook):
    assert hook["id"] == "pillion-check"
    assert hook["language"] == "python"
    assert hook["types_or"] == ["yaml", "json"]
    for dependency in hook["additional_dependencies"]:
        assert (ROOT / dependency / "pyproject.toml").is_file()


def test_a_commit_without_mistakes_passes(hook):
    done = run(hook, ROOT / "samples" / "argo_training.yaml", ROOT / "samples" / "kubernetes_job.yaml")
    assert (done.returncode, done.stdout.strip()) == (0, "2 files checked: no mistakes")


def test_one_mistake_among_several_files_stops_the_commit(hook):
    done = run(
        hook, ROOT / "samples" / "argo_training.yaml", DEFECTS / "share-value.yaml", DEFECTS / "unknown-field.yaml"
    )
    lines = done.stdout.strip().splitlines()
    assert done.returncode == 1
    assert [line.partition(" ")[0] for line in lines[:-1]] == [
        "tests/check/defects/share-value.yaml:9:5:",
        "tests/check/defects/unknown-field.yaml:10:7:",
        "tests/check/defects/unknown-field.yaml:11:7:",
        "tests/check/defects/unknown-field.yaml:15:9:",
    ]
    assert lines[-1] == "3 files checked: 4 errors"


def test_warnings_let_a_commit_pass(hook):
    done = run(hook, DEFECTS / "foreign-words.yaml")
    assert (done.returncode, done.stdout.strip().splitlines()[-1]) == (0, "1 file checked: 3 warnings")
