"""`kfp.local`: tagged components and tasks run on this machine as if they were not tagged."""

import os
import sys
from pathlib import Path

import pytest
from kfp import dsl, local
from kfp.local import config

import pillion
from pillion import PolicyError, gpu_share, priority


@gpu_share(0.5, memory="8Gi")
@priority("low", on_preempt="evict")
@dsl.component(base_image="python:3.11", install_kfp_package=False)
def double(number: float) -> float:
    return number * 2


@dsl.component(base_image="python:3.11", install_kfp_package=False)
@gpu_share(0.5)
def half(number: float) -> float:
    return number / 2


@dsl.pipeline(name="there-and-back")
@pillion.defaults(priority="high")
def there_and_back(number: float) -> float:
    return half(number=gpu_share(0.25, memory="1Gi")(double(number=number)).output).output


@pytest.fixture(autouse=True)
def runner(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The runner starts the python3 that it finds.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    local.init(runner=local.SubprocessRunner(use_venv=False), raise_on_error=True, pipeline_root=str(tmp_path / "out"))
    yield
    config.LocalExecutionConfig.instance = None


def test_a_component():
    assert double(number=3.0).output == 6.0
    assert half(number=3.0).output == 1.5


def test_a_task_that_has_run_is_left_alone():
    task = double(number=3.0)
    assert gpu_share(0.25)(task) is task
    assert gpu_share(0.25)(task) is task
    assert task.output == 6.0


def test_defaults_around_a_run():
    with pillion.defaults(share=0.5):
        assert double(number=1.0).output == 2.0


def test_a_pipeline():
    task = there_and_back(number=5.0)
    assert task.output == 5.0
    with pytest.raises(PolicyError, match="is applied to a pipeline"):
        gpu_share(0.5)(task)
