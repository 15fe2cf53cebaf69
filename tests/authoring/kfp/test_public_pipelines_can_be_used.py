"""The public corpus of compiled KFP pipelines: as steps beside tagged ones, and as tagged components."""

from pathlib import Path

import pytest
from kfp import components, dsl

from pillion import gpu_share

CORPUS = Path("../shared/corpus/kfp")
HALF = {"pillion.dev/priority": "normal", "pillion.dev/share": "0.5"}


def loadable():
    """Yield each file of the corpus that kfp can load, as (name, component)."""
    for path in sorted(CORPUS.rglob("*.yaml")):
        if "deploymentSpec:" in path.read_text():
            yield path.relative_to(CORPUS).as_posix(), components.load_component_from_file(str(path))


pytestmark = pytest.mark.skipif(not CORPUS.exists(), reason=f"the corpus of public pipelines is not at {CORPUS}")


def known(config):
    """Leave out what is newer than the installed kfp."""
    return {key: value for key, value in config.items() if key != "initContainers"}


def step_called(name):
    def step():
        return dsl.ContainerSpec(image="step")

    step.__name__ = name.replace("-", "_")
    return dsl.container_component(step)


def outer_pipeline(step, pipeline):
    @dsl.pipeline(name="outer")
    def outer():
        step()
        pipeline()

    return outer


def test_a_pipelines_steps_keep_what_they_have_beside_a_tagged_step_of_the_same_name(compiled, record_property):
    count = 0
    for name, pipeline in loadable():
        if pipeline.component_spec.implementation.graph is None or pipeline.required_inputs:
            continue
        alone = compiled(pipeline, known=known)
        if "pipelineConfig" in alone.text:
            continue  # what it says of a whole pipeline, the outer one would have to say
        namesake = min(alone.executors).removeprefix("exec-")
        nested = compiled(outer_pipeline(gpu_share(0.5)(step_called(namesake)), pipeline), known=known).steps
        assert nested.pop((namesake,))[1]["podMetadata"]["annotations"] == HALF, name
        assert {path[1:]: step for path, step in nested.items()} == alone.steps, name
        count += 1
    record_property("pipelines", count)
    assert count > 20


def test_a_component_gets_its_policy_and_keeps_the_rest(assert_only_policies_differ, record_property):
    count = 0
    for _, component in loadable():
        if component.component_spec.implementation.graph is None:
            assert_only_policies_differ(component, gpu_share(0.5)(component), {f"exec-{component.name}": HALF})
            count += 1
    record_property("components", count)
    assert count > 5
