"""The same policy in Python and in YAML: the same fields, so that nobody has to know how a file was made."""

import subprocess
import sys

import pytest
import yaml

from pillion import gpu_share, priority
from pillion.authoring.manifests.compile import compile_text
from pillion.authoring.manifests.settings import parse_setting

SETTINGS = (
    "train: share=0.5,memory=8Gi,limit=0.9,on-preempt=evict,priority=normal,retries=7",
    "evaluate: share=0.25,priority=high,max-slowdown=2%,max-stall=5ms",
    "report: memory=1Gi,priority=low,on-preempt=suspend",
)


def decorated(name, target):
    """Apply the same in Python."""
    if name == "train":
        return gpu_share(0.5, memory="8Gi", limit=0.9)(priority("normal", on_preempt="evict", retries=7)(target))
    if name == "evaluate":
        return gpu_share(0.25)(priority("high", max_slowdown="2%", max_stall="5ms")(target))
    return gpu_share(memory="1Gi")(priority("low", on_preempt="suspend")(target))


def documents(text):
    return list(yaml.safe_load_all(text))


def test_hera():
    hera = pytest.importorskip("hera.workflows")

    def workflow(tag):
        with hera.Workflow(name="w", entrypoint="main") as made:
            steps = [tag(name, hera.Container(name=name, image="x", command=["true"])) for name in
                     ("train", "evaluate", "report")]  # fmt: skip
            with hera.Steps(name="main"):
                for step in steps:
                    step(name=step.name)
        return made.to_yaml()

    plain = workflow(lambda _, target: target)
    compiled = compile_text(plain, "w.yaml", [parse_setting(setting) for setting in SETTINGS]).text
    assert documents(compiled) == documents(workflow(decorated))
    assert compile_text(workflow(decorated), "w.yaml").text == workflow(decorated)  # nothing is left to be completed


@pytest.fixture
def kfp_compiled(tmp_path):
    """Compile a pipeline of three components and a loop."""
    dsl = pytest.importorskip("kfp.dsl")
    compiler = pytest.importorskip("kfp.compiler")

    def compiled(tag):
        @dsl.container_component
        def train():
            return dsl.ContainerSpec(image="x", command=["true"])

        @dsl.container_component
        def evaluate():
            return dsl.ContainerSpec(image="y", command=["true"])

        @dsl.container_component
        def report():
            return dsl.ContainerSpec(image="z", command=["true"])

        one, two, three = tag("train", train), tag("evaluate", evaluate), tag("report", report)

        @dsl.pipeline(name="p")
        def pipeline():
            with dsl.ParallelFor([1, 2]):
                one()
            two().after(one())
            three()

        path = tmp_path / "p.yaml"
        compiler.Compiler().compile(pipeline, str(path))
        return path.read_text()

    return compiled


def test_kfp(kfp_compiled):
    plain = kfp_compiled(lambda _, target: target)
    # KFP numbers the executors of a component that is used twice: exec-train, exec-train-2.
    compiled = compile_text(plain, "p.yaml", [parse_setting(setting.replace(":", ".*:", 1)) for setting in SETTINGS])
    assert documents(compiled.text) == documents(kfp_compiled(decorated))


def test_what_the_kfp_adapter_wrote_needs_nothing_more(kfp_compiled):
    text = kfp_compiled(decorated)
    assert compile_text(text, "p.yaml").text is text


def test_compiling_yaml_loads_no_sdk():
    code = (
        "import sys; from pillion.authoring.manifests.compile import compile_text; "
        "compile_text('kind: Pod', 'x'); "
        "sys.exit(', '.join({'kfp', 'hera', 'kubernetes', 'pydantic', 'google'} & set(sys.modules)))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True).stderr.strip() == ""
    )
