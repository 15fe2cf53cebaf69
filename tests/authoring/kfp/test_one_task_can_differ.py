"""Directives on one task: they win over its component's, each as a whole, whenever they are said."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from kfp import dsl

from pillion import PolicyError, gpu_share, priority


@dsl.component(base_image="python:3.11")
def plain(rate: float): ...


half = gpu_share(0.5, memory="8Gi")(plain)
low = priority("low")(plain)


def annotations_of(compiled, body):
    @dsl.pipeline(name="p")
    def p():
        body()

    return compiled(p).annotations("exec-plain")


def test_on_a_plain_components_task(assert_only_policies_differ):
    def build(tag):
        @dsl.pipeline(name="p")
        def p():
            tag(plain(rate=0.1))
            plain(rate=0.2)

        return p

    assert_only_policies_differ(
        build(lambda task: task),
        build(gpu_share(0.25, limit=0.5, memory="4Gi")),
        {
            "exec-plain": {
                "pillion.dev/limit": "0.5",
                "pillion.dev/memory": "4Gi",
                "pillion.dev/priority": "normal",
                "pillion.dev/share": "0.25",
            }
        },
    )


def test_a_task_replaces_its_components_gpu_share_as_a_whole(compiled):
    assert annotations_of(compiled, lambda: gpu_share(0.25)(half(rate=0.1))) == {
        "pillion.dev/priority": "normal",
        "pillion.dev/share": "0.25",
    }


def test_a_task_can_complete_what_its_component_left_open(compiled):
    expected = {"pillion.dev/memory": "2Gi", "pillion.dev/priority": "low"}
    assert annotations_of(compiled, lambda: gpu_share(memory="2Gi")(low(rate=0.1))) == expected
    assert annotations_of(compiled, lambda: priority("low")(gpu_share(memory="2Gi")(plain(rate=0.1)))) == expected
    assert annotations_of(compiled, lambda: gpu_share(memory="2Gi")(priority("low")(plain(rate=0.1)))) == expected


def test_the_task_itself_is_returned():
    @dsl.pipeline(name="p")
    def p():
        task = half(rate=0.1)
        assert gpu_share(0.25, memory="4Gi")(task) is task
        priority("low")(task).set_caching_options(False)


def test_the_same_directive_twice_on_a_task_is_an_error():
    with pytest.raises(PolicyError, match="at most one gpu_share"):

        @dsl.pipeline(name="p")
        def p():
            gpu_share(0.5)(gpu_share(0.25)(plain(rate=0.1)))


def test_what_stays_incomplete_is_refused_with_every_step_and_its_line():
    with pytest.raises(PolicyError) as caught:

        @dsl.pipeline(name="nightly")
        def p():
            low(rate=0.1)
            half(rate=0.2)
            priority("high")(plain(rate=0.3))

    first, second = caught.value.problems
    assert (first.code, first.what) == ("missing-memory", "a low step says no memory")
    assert (second.code, second.what) == ("missing-share", "a high step says no share")
    assert first.where.startswith(f'task "plain" of pipeline "nightly" ({__file__}:')
    assert second.where.startswith(f'task "plain-3" of pipeline "nightly" ({__file__}:')
    lines = [int(problem.where.rpartition(":")[2].rstrip(")")) for problem in caught.value.problems]
    source = Path(__file__).read_text().splitlines()
    assert [source[number - 1].strip() for number in lines] == ["low(rate=0.1)", 'priority("high")(plain(rate=0.3))']


def test_after_the_pipeline_is_compiled_it_is_too_late():
    tasks = []

    @dsl.pipeline(name="p")
    def p():
        tasks.append(plain(rate=0.1))

    with pytest.raises(PolicyError) as caught:
        gpu_share(0.5)(tasks[0])
    assert [(problem.code, problem.where) for problem in caught.value.problems] == [("kfp-too-late", 'task "plain"')]


def test_the_first_directive_ever_may_stand_inside_a_pipeline(tmp_path):
    """Nothing of Pillion has met kfp before the pipeline's function runs."""
    program = tmp_path / "inside.py"
    program.write_text(
        textwrap.dedent("""
        from kfp import dsl
        from pillion import gpu_share

        @dsl.component(base_image="python:3.11")
        def train(): ...

        @dsl.pipeline(name="p")
        def p():
            gpu_share(0.25)(train())

        executors = p.platform_spec.platforms["kubernetes"].deployment_spec.executors
        print(executors["exec-train"]["podMetadata"]["annotations"]["pillion.dev/share"])
        """)
    )
    found = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    assert found.stdout == "0.25\n"
