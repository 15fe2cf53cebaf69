"""A user's module whose annotations are text; hooks in it are registered under a string and never run."""

from __future__ import annotations

from hera.shared import register_pre_build_hook
from hera.workflows import Container, Script, Steps, Workflow, script

from pillion import gpu_share


def make() -> Workflow:
    @register_pre_build_hook
    def never_runs(template: Script) -> Script:
        raise AssertionError(template)

    @gpu_share(0.5)
    @script(image="i")
    def above() -> None:
        pass

    @script(image="i")
    @gpu_share(0.5)
    def below() -> None:
        pass

    with Workflow(name="nightly", entrypoint="all") as workflow, Steps(name="all"):
        above()
        below()
        gpu_share(0.5)(Container(name="container", image="i"))
    return workflow
