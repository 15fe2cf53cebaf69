"""However a program gets hold of the driver's functions, a stopped process submits nothing, and goes on when it may."""

import pytest

from pillion_node.pages import State

ROUTES = ["dlsym", "default", "self", "dlsym-of-libc", "v1", "v2", "v2-ptsz", "v2-by-v2"]


def stops_and_goes(program, agent, on_gpu, eventually):
    assert program.hear() == "ready"
    member = agent.member()
    assert member.pid == program.process.pid
    member.grant(State.STOP)
    program.tell("go")
    eventually(lambda: member.client["waiting"] == 1, "a launch that is held")
    assert on_gpu(program.process.pid) == 0
    member.grant(State.RUN)
    assert program.finish() == [1, 2, 3]
    assert on_gpu(program.process.pid) == 3
    assert member.client["submissions"] == 3


@pytest.mark.parametrize("route", ROUTES)
def test_by_lookup(route, built, run, agent_at, on_gpu, eventually):
    agent = agent_at()
    stops_and_goes(run(built("routes.c"), route, 3, agent=agent), agent, on_gpu, eventually)


def test_by_dlsym_of_older_c_libraries(built, run, agent_at, on_gpu, eventually):
    agent = agent_at()
    stops_and_goes(run(built("routes.c", "-DOLD_DLSYM"), "dlsym", 3, agent=agent), agent, on_gpu, eventually)


@pytest.mark.parametrize("flags", [(), ("-DCUDA_API_PER_THREAD_DEFAULT_STREAM",)], ids=["legacy", "per-thread"])
def test_by_linking(flags, built, run, agent_at, on_gpu, eventually, driver_library):
    agent = agent_at()
    program = run(built("linked.c", *flags, str(driver_library)), "linked", 3, agent=agent)
    stops_and_goes(program, agent, on_gpu, eventually)


def test_by_cuda_bindings(run, agent_at, on_gpu, eventually):
    agent = agent_at()
    program = run(
        """
        context(); f = kernel(b"k_10us"); say("ready"); heard()
        for k in range(3):
            launch(f); say(k + 1)
        """,
        agent=agent,
    )
    stops_and_goes(program, agent, on_gpu, eventually)
