"""A high process says when its GPU became busy and idle; processes of lower tiers see it at their next submission."""

import mmap
import time

import pytest

from pillion_node import pages
from pillion_node.pages import GateTier, State

HIGH = """
context(); f = kernel(b"k_2ms"); one, two = ok(d.cuStreamCreate(1)), ok(d.cuStreamCreate(1))
event, a = ok(d.cuEventCreate(0)), ok(d.cuMemAlloc(64)); host = (ctypes.c_char * 64)(); at = ctypes.addressof(host)
def poll(ask):
    while ask()[0] == d.CUresult.CUDA_ERROR_NOT_READY: time.sleep(0)
say("up"); heard(); before = time.monotonic_ns()
"""


def marks(member):
    """What was marked, oldest first: (time, busy)."""
    count = member.activity["marks"]
    assert count <= 64
    words = [member.activity.item("mark", k) for k in range(count)]
    return [(word >> 1, bool(word & 1)) for word in words]


WAYS = {
    "context": "launch(f, one); ok(d.cuCtxSynchronize())",
    "stream": "launch(f, one); ok(d.cuStreamSynchronize(one))",
    "default stream": "launch(f); ok(d.cuStreamSynchronize(0))",
    "stream query": "launch(f, one); poll(lambda: d.cuStreamQuery(one))",
    "event": "launch(f, one); ok(d.cuEventRecord(event, one)); ok(d.cuEventSynchronize(event))",
    "event query": "launch(f, one); ok(d.cuEventRecord(event, one)); poll(lambda: d.cuEventQuery(event))",
    "synchronous copy": "launch(f); ok(d.cuMemcpyDtoH(at, a, 64))",
    "two streams": "launch(f, one); launch(f, two); ok(d.cuStreamSynchronize(one)); ok(d.cuStreamSynchronize(two))",
    "graph": "g = ok(d.cuGraphCreate(0)); n = d.CUDA_KERNEL_NODE_PARAMS(); n.func = f\n"
             "n.gridDimX = n.gridDimY = n.gridDimZ = n.blockDimX = n.blockDimY = n.blockDimZ = 1\n"
             "ok(d.cuGraphAddKernelNode(g, None, 0, n)); ok(d.cuGraphLaunch(ok(d.cuGraphInstantiate(g, 0)), one)); ok(d.cuStreamSynchronize(one))",
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_its_own_synchronising_tells_when_it_is_idle(way, run, agent_at):
    agent = agent_at(tier=GateTier.HIGH)
    program = run(HIGH + WAYS[way] + "\nsay(before, time.monotonic_ns()); heard()", agent=agent)
    assert program.hear() == "up"
    program.tell(0)
    before, after = program.hear()
    made = marks(agent.member())
    assert [busy for _, busy in made] == [True, False]
    assert before <= made[0][0] <= made[1][0] - 2_000_000 <= after - 2_000_000
    program.tell(0)
    program.finish()


def test_one_stream_that_is_complete_does_not_make_it_idle(run, agent_at):
    agent = agent_at(tier=GateTier.HIGH)
    program = run(
        HIGH
        + "launch(f, one, times=100); launch(f, two); ok(d.cuStreamSynchronize(two)); say(0); heard(); ok(d.cuCtxSynchronize()); say(1); heard()",
        agent=agent,
    )
    program.hear()
    program.tell(0)
    program.hear()
    assert [busy for _, busy in marks(agent.member())] == [True]
    program.tell(0)
    program.hear()
    assert [busy for _, busy in marks(agent.member())] == [True, False]
    program.tell(0)
    program.finish()


def test_without_any_synchronising_idleness_is_noticed_soon_after(run, agent_at, eventually):
    agent = agent_at(tier=GateTier.HIGH)
    program = run(HIGH + "launch(f, one, times=10); launch(f, times=5); say(before); heard()", agent=agent)
    program.hear()
    program.tell(0)
    before = program.hear()
    eventually(lambda: len(marks(agent.member())) == 2, "the mark that it is idle")
    (_, first), (idle_ns, second) = marks(agent.member())
    assert (first, second) == (True, False)
    assert idle_ns - before >= 15 * 2_000_000
    program.tell(0)
    program.finish()


def test_the_watch_breaks_no_capture(run, agent_at):
    agent = agent_at(tier=GateTier.HIGH)
    program = run(HIGH + """
launch(f, two, times=4)
for _ in range(10):
    ok(d.cuStreamBeginCapture(one, d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)); launch(f, one); time.sleep(0.01)
    ok(d.cuGraphLaunch(ok(d.cuGraphInstantiate(ok(d.cuStreamEndCapture(one)), 0)), one))
ok(d.cuCtxSynchronize()); say(1); heard()
""", agent=agent)  # fmt: skip
    program.hear()
    program.tell(0)
    program.hear()
    program.tell(0)
    program.finish()


def test_captured_work_does_not_make_it_busy(run, agent_at):
    agent = agent_at(tier=GateTier.HIGH)
    program = run(HIGH + """
ok(d.cuStreamBeginCapture(one, d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)); launch(f, one); ok(d.cuStreamEndCapture(one)); say(1); heard()
""", agent=agent)  # fmt: skip
    program.hear()
    program.tell(0)
    program.hear()
    assert marks(agent.member()) == []
    program.tell(0)
    program.finish()


def test_alone_on_its_gpu_it_marks_nothing(run, agent_at):
    agent = agent_at(tier=GateTier.HIGH, open_=True)
    program = run(HIGH + "launch(f, one); ok(d.cuCtxSynchronize()); say(1); heard()", agent=agent)
    program.hear()
    program.tell(0)
    program.hear()
    assert marks(agent.member()) == []
    program.tell(0)
    program.finish()


def test_nobody_but_its_gate_can_write_its_marks(run, agent_at, layout):
    agent = agent_at(tier=GateTier.HIGH)
    program = run(HIGH + "say(1); heard()", agent=agent)
    program.hear()
    member = agent.member()
    with pytest.raises(PermissionError):
        mmap.mmap(member.activity.fd, 4096, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    with pytest.raises(PermissionError):
        mmap.mmap(member.lease.fd, 4096, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    program.tell(0)
    program.tell(0)
    program.finish()


LOW = """
context(); f = kernel(b"k_100us"); say("up"); stop = False
def listen():
    global stop
    heard(); stop = True
threading.Thread(target=listen, daemon=True).start()
while not stop:
    launch(f)
ok(d.cuCtxSynchronize()); say("done")
"""


def test_low_stops_within_its_next_submission_when_high_is_busy_and_goes_on_when_it_is_idle(run, agent_at, eventually):
    agent = agent_at(tier=GateTier.HIGH, max_slowdown_ppm=1000)
    high = run(HIGH + """
while (what := heard()) != ["end"]:
    launch(f, one, times=what[0]); say(time.monotonic_ns()); heard(); ok(d.cuCtxSynchronize()); say("idle")
""", agent=agent)  # fmt: skip
    high.hear()
    first = agent.member()
    agent.tier = GateTier.LOW
    low = run(LOW, agent=agent)
    low.hear()
    second = agent.member(1)
    second.watch(first, 0)
    high.tell(0)
    eventually(lambda: second.client["submissions"] > 50, "submissions beside an idle high step")
    high.tell(100)
    high.hear()
    eventually(lambda: second.client["waiting"] == 1, "a low step that waits")
    eventually(lambda: second.client["in_flight"] == 0, "its queue to run out")
    held = second.client["submissions"]
    deadline = time.monotonic() + 0.05
    while time.monotonic() < deadline:
        assert second.client["submissions"] == held
    high.tell(0)
    assert high.hear() == "idle"
    eventually(lambda: second.client["submissions"] > held + 5, "submissions in the next pause")
    second.watch(first, 0, present=False)
    eventually(lambda: second.client["submissions"] > held + 50, "submissions after the high step was detached")
    high.tell("end")
    high.finish()
    low.tell(0)
    assert low.finish() == ["done"]


def test_a_scribbled_activity_page_hurts_nobody(run, agent_at, layout, eventually):
    agent = agent_at(tier=GateTier.LOW, budget_ppm=0)
    low = run(LOW, agent=agent)
    low.hear()
    member = agent.member()

    class Liar:
        activity = pages.create_page(layout, "activity")

    member.watch(Liar, 31)
    for value in (0, 1, 2**64 - 1, 2**63, 12345):
        for k in range(64):
            Liar.activity.set_item("mark", k, value ^ k)
        Liar.activity["marks"] = value
        before = member.client["submissions"]
        eventually(lambda: member.client["waiting"] or member.client["submissions"] > before, "its next look")  # noqa: B023
    member.watch(Liar, 31, present=False)
    before = member.client["submissions"]
    eventually(lambda: member.client["submissions"] > before + 20, "submissions after the liar was detached")
    member.grant(State.RUN)
    low.tell(0)
    assert low.finish() == ["done"]
