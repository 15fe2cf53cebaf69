"""What a stream captures is no work yet: it is not held, and the gate's own questions break no capture."""

import pytest

from pillion_node.pages import State

CAPTURE = """
context(); f = kernel(b"k_1ms"); stream = ok(d.cuStreamCreate(1))
mode = getattr(d.CUstreamCaptureMode, "CU_STREAM_CAPTURE_MODE_" + sys.argv[1])
"""


@pytest.mark.parametrize("mode", ["GLOBAL", "THREAD_LOCAL", "RELAXED"])
def test_a_stopped_process_captures_and_only_its_launch_is_held(mode, run, agent_at, on_gpu, eventually):
    agent = agent_at(state=State.STOP)
    program = run(CAPTURE + """
ok(d.cuStreamBeginCapture(stream, mode)); launch(f, stream, times=20); ok(d.cuMemsetD8Async(ok(d.cuMemAlloc(64)), 0, 64, stream)) if mode.value == 2 else None
graph = ok(d.cuStreamEndCapture(stream)); exec_ = ok(d.cuGraphInstantiate(graph, 0)); say("captured")
ok(d.cuGraphLaunch(exec_, stream)); ok(d.cuStreamSynchronize(stream)); say("ran")
""", mode, agent=agent)  # fmt: skip
    assert program.hear() == "captured"
    member = agent.member()
    eventually(lambda: member.client["waiting"] == 1, "a graph launch that is held")
    assert on_gpu(program.process.pid) == 0
    member.grant(State.RUN)
    assert program.finish() == ["ran"]
    assert member.client["submissions"] == 1


def test_another_threads_work_goes_on_beside_a_global_capture(run, agent_at):
    agent = agent_at(in_flight_cap=2)
    program = run(CAPTURE + """
main = ok(d.cuCtxGetCurrent()); go = threading.Event(); done = threading.Event()
def work():
    ok(d.cuCtxSetCurrent(main)); other = ok(d.cuStreamCreate(1)); go.wait()
    launch(kernel_, other, times=20); done.set()
kernel_ = kernel(b"k_100us"); thread = threading.Thread(target=work); thread.start()
ok(d.cuStreamBeginCapture(stream, mode)); go.set(); launch(f, stream, times=3); done.wait(); launch(f, stream)
graph = ok(d.cuStreamEndCapture(stream)); exec_ = ok(d.cuGraphInstantiate(graph, 0)); thread.join()
ok(d.cuGraphLaunch(exec_, stream)); ok(d.cuCtxSynchronize()); say("ran")
""", "GLOBAL", agent=agent)  # fmt: skip
    assert program.finish() == ["ran"]
    assert agent.member().client["submissions"] == 21


def test_a_capture_that_begins_while_the_gate_was_open_is_not_synchronised_away(run, agent_at, on_gpu, eventually):
    agent = agent_at(open_=True)
    program = run(CAPTURE + """
launch(f); ok(d.cuStreamBeginCapture(stream, mode)); launch(f, stream); say(0); heard(); launch(f, stream)
graph = ok(d.cuStreamEndCapture(stream)); ok(d.cuGraphLaunch(ok(d.cuGraphInstantiate(graph, 0)), stream)); say(1)
""", "GLOBAL", agent=agent)  # fmt: skip
    assert program.hear() == 0
    agent.member().shut(State.RUN)
    program.tell(0)
    assert program.finish() == [1]
