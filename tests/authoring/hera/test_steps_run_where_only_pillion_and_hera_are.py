"""A decorated function runs in its container: by Hera's runner, or inline without needing Pillion at all."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hera.workflows import Steps, Workflow, script

import pillion
from pillion import gpu_share, priority

# In the image: Hera with its own requirements, and Pillion without those of its command line.
BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"yaml", "typer", "rich", "ruamel", "kfp", "kubernetes", "jinja2"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
"""
STEPS = '''
from hera.workflows import script
from pillion import defaults, gpu_share, priority

@gpu_share(0.5, memory="8Gi")
@priority("low", on_preempt="evict")
@script(constructor="runner")
def above(rate: float, epochs: int = 3) -> str:
    """Train."""
    return f"{rate * 2} {epochs + 1}"

@script(constructor="runner")
@gpu_share("{{inputs.parameters.share}}")
def below(rate: float, share: str) -> str:
    return f"{rate * 2} {share}"

with defaults(priority="low"):
    @script(constructor="runner")
    def plain(rate: float) -> str:
        return str(rate * 2)
'''


@pytest.fixture
def image(tmp_path):
    """Return how to run Python as it runs in such an image, in the folder that has the author's module."""
    (tmp_path / "steps.py").write_text(STEPS)
    (tmp_path / "sitecustomize.py").write_text(BLOCK)

    def run(*arguments):
        packages = (str(tmp_path), str(Path(pillion.__file__).parent.parent))
        return subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, check=True, cwd=tmp_path,
            env={"PYTHONPATH": os.pathsep.join(packages)},
        ).stdout  # fmt: skip

    return run


@pytest.mark.parametrize(
    ("step", "inputs", "output"),
    [
        ("above", {"rate": "0.25"}, "0.5 4"),
        ("above", {"rate": "0.25", "epochs": "7"}, "0.5 8"),
        ("below", {"rate": "0.25", "share": "0.5"}, "0.5 0.5"),
        ("plain", {"rate": "0.25"}, "0.5"),
    ],
)
def test_heras_runner_runs_it(step, inputs, output, image, tmp_path):
    if step == "above":
        inputs = {"epochs": "3", **inputs}
    parameters = tmp_path / "parameters.json"
    parameters.write_text(json.dumps([{"name": name, "value": value} for name, value in inputs.items()]))
    assert image("-m", "hera.workflows.runner", "-e", f"steps:{step}", str(parameters)).strip() == output


def test_the_image_really_lacks_the_rest(image):
    code = "import importlib.util as u\ntry: import yaml\nexcept ImportError: print('no yaml')"
    assert image("-c", code) == "no yaml\n"


def test_an_inline_script_carries_no_trace_of_the_decorators(templates, image, tmp_path):
    @gpu_share(
        0.5,
        memory="8Gi",
    )
    @script(image="i")
    @priority("low")
    def train(rate: float):
        doubled = rate * 2
        print(doubled)

    with Workflow(name="nightly", entrypoint="all") as nightly, Steps(name="all"):
        train(arguments={"rate": 0.25})
    source = templates(nightly)["train"]["script"]["source"]
    assert "pillion" not in source
    assert "gpu_share" not in source
    imported = {
        alias.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import) for alias in node.names
    }
    assert imported == {"json", "os", "sys"}
    (tmp_path / "script.py").write_text(source.replace("{{inputs.parameters.rate}}", "0.25"))
    assert image(str(tmp_path / "script.py")) == "0.5\n"
