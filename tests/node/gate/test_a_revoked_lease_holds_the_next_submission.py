"""DRAIN and STOP close the gate within the next submission, for everything that is work; what is in flight stays bounded."""

import time

import pytest

from pillion_node.pages import ClientFlag, State

WORK = """
context(); f = kernel(b"k_10us"); stream = ok(d.cuStreamCreate(1))
a, b = ok(d.cuMemAlloc(1 << 16)), ok(d.cuMemAlloc(1 << 16))
host = (ctypes.c_char * 65536)(); at = ctypes.addressof(host)
graph = ok(d.cuGraphCreate(0)); node = d.CUDA_KERNEL_NODE_PARAMS()
node.func, node.gridDimX, node.gridDimY, node.gridDimZ, node.blockDimX, node.blockDimY, node.blockDimZ = f, 1, 1, 1, 1, 1, 1
ok(d.cuGraphAddKernelNode(graph, None, 0, node)); exec_ = ok(d.cuGraphInstantiate(graph, 0))
config = d.CUlaunchConfig(); config.gridDimX = config.gridDimY = config.gridDimZ = 1
config.blockDimX = config.blockDimY = config.blockDimZ = 1; config.hStream = stream
copy2 = d.CUDA_MEMCPY2D(); copy2.srcMemoryType = copy2.dstMemoryType = d.CUmemorytype.CU_MEMORYTYPE_DEVICE
copy2.srcDevice, copy2.dstDevice, copy2.WidthInBytes, copy2.Height, copy2.srcPitch, copy2.dstPitch = a, b, 64, 4, 64, 64
copy3 = d.CUDA_MEMCPY3D(); copy3.srcMemoryType = copy3.dstMemoryType = d.CUmemorytype.CU_MEMORYTYPE_DEVICE
copy3.srcDevice, copy3.dstDevice, copy3.WidthInBytes, copy3.Height, copy3.Depth = a, b, 64, 4, 2
copy3.srcPitch = copy3.dstPitch = 64; copy3.srcHeight = copy3.dstHeight = 4
WORK = {
    "cuLaunchKernel": lambda: launch(f),
    "cuLaunchKernelEx": lambda: ok(d.cuLaunchKernelEx(config, f, 0, 0)),
    "cuLaunchCooperativeKernel": lambda: ok(d.cuLaunchCooperativeKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, 0)),
    "cuGraphLaunch": lambda: ok(d.cuGraphLaunch(exec_, stream)),
    "cuMemcpy": lambda: ok(d.cuMemcpy(a, b, 64)),
    "cuMemcpyAsync": lambda: ok(d.cuMemcpyAsync(a, b, 64, stream)),
    "cuMemcpyHtoD": lambda: ok(d.cuMemcpyHtoD(a, at, 64)),
    "cuMemcpyHtoDAsync": lambda: ok(d.cuMemcpyHtoDAsync(a, at, 64, stream)),
    "cuMemcpyDtoH": lambda: ok(d.cuMemcpyDtoH(at, a, 64)),
    "cuMemcpyDtoHAsync": lambda: ok(d.cuMemcpyDtoHAsync(at, a, 64, stream)),
    "cuMemcpyDtoD": lambda: ok(d.cuMemcpyDtoD(a, b, 64)),
    "cuMemcpyDtoDAsync": lambda: ok(d.cuMemcpyDtoDAsync(a, b, 64, stream)),
    "cuMemcpy2D": lambda: ok(d.cuMemcpy2D(copy2)),
    "cuMemcpy2DAsync": lambda: ok(d.cuMemcpy2DAsync(copy2, stream)),
    "cuMemcpy3D": lambda: ok(d.cuMemcpy3D(copy3)),
    "cuMemcpy3DAsync": lambda: ok(d.cuMemcpy3DAsync(copy3, stream)),
    "cuMemsetD8": lambda: ok(d.cuMemsetD8(a, 1, 64)),
    "cuMemsetD8Async": lambda: ok(d.cuMemsetD8Async(a, 1, 64, stream)),
    "cuMemsetD2D32": lambda: ok(d.cuMemsetD2D32(a, 64, 1, 8, 4)),
    "cuMemsetD2D32Async": lambda: ok(d.cuMemsetD2D32Async(a, 64, 1, 8, 4, stream)),
}
"""
KINDS = ["cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel", "cuGraphLaunch", "cuMemcpy", "cuMemcpyAsync",
         "cuMemcpyHtoD", "cuMemcpyHtoDAsync", "cuMemcpyDtoH", "cuMemcpyDtoHAsync", "cuMemcpyDtoD", "cuMemcpyDtoDAsync",
         "cuMemcpy2D", "cuMemcpy2DAsync", "cuMemcpy3D", "cuMemcpy3DAsync", "cuMemsetD8", "cuMemsetD8Async", "cuMemsetD2D32",
         "cuMemsetD2D32Async"]  # fmt: skip


def test_every_kind_of_work_is_held(run, agent_at, on_gpu, eventually):
    agent = agent_at()
    program = run(WORK + """
say("up")
for name in json.loads(sys.argv[1]):
    assert heard() == [name]
    WORK[name](); say(name)
""", __import__("json").dumps(KINDS), agent=agent)  # fmt: skip
    assert program.hear() == "up"
    member = agent.member()
    for name in KINDS:
        before = on_gpu(program.process.pid)
        member.grant(State.DRAIN)
        program.tell(name)
        eventually(lambda: member.client["waiting"] == 1, f"{name} that is held")
        assert member.client["acknowledged_epoch"] == member.lease["epoch"]
        assert on_gpu(program.process.pid) == before, name
        member.grant(State.RUN)
        assert program.hear() == name
        assert on_gpu(program.process.pid) == before + 1, name
    program.finish()


def test_a_submission_that_is_held_keeps_the_order_of_its_thread(run, agent_at, on_gpu, eventually):
    agent = agent_at(state=State.STOP)
    program = run(
        "context(); f = kernel(b'k_10us'); launch(f); say(1); launch(f); say(2); ok(d.cuCtxSynchronize()); say(3)",
        agent=agent,
    )
    member = agent.member()
    eventually(lambda: member.client["waiting"] == 1, "a launch that is held")
    member.grant(State.RUN)
    assert program.finish() == [1, 2, 3]


def test_a_lease_ends_by_itself_at_its_deadline(run, agent_at, eventually):
    agent = agent_at()
    program = run(
        "context(); f = kernel(b'k_10us'); say(0); heard(); launch(f); say(1); heard(); launch(f); say(2)", agent=agent
    )
    assert program.hear() == 0
    member = agent.member()
    member.grant(State.RUN, deadline_ns=time.monotonic_ns() - 1)
    program.tell(0)
    eventually(lambda: member.client["waiting"] == 1, "a launch that is held")
    member.grant(State.RUN, deadline_ns=time.monotonic_ns() + 10**12)
    assert program.hear() == 1
    program.tell(0)
    assert program.finish() == [2]


@pytest.mark.parametrize("cap", [1, 4])
def test_no_more_is_in_flight_than_the_cap_allows(cap, run, agent_at, machine, on_gpu, eventually):
    agent = agent_at(in_flight_cap=cap)
    program = run(
        "context(); f = kernel(b'k_200ms'); say(0); launch(f, times=cap + 1 if (cap := int(sys.argv[1])) else 0); say(1)",
        cap,
        agent=agent,
    )
    assert program.hear() == 0
    member = agent.member()
    eventually(lambda: member.client["waiting"] == 1, "a launch beyond the cap")
    assert on_gpu(program.process.pid) == cap
    assert member.client["in_flight"] == cap
    assert program.hear() == 1


def test_in_flight_returns_to_zero_although_the_program_submits_nothing_more(run, agent_at, eventually):
    agent = agent_at(in_flight_cap=8)
    program = run("context(); f = kernel(b'k_20ms'); launch(f, times=2); say(0); heard()", agent=agent)
    assert program.hear() == 0
    member = agent.member()
    member.grant(State.DRAIN)
    eventually(lambda: member.client["in_flight"] == 0, "the end of the drain")
    eventually(lambda: member.client["acknowledged_epoch"] == member.lease["epoch"], "the acknowledgement")
    eventually(lambda: member.client["drains"] == 1, "the drain's end")
    assert member.client["device_ns"] == pytest.approx(40e6, rel=0.2)
    assert member.client["longest_unit_ns"] == pytest.approx(20e6, rel=0.2)
    program.tell(0)
    program.finish()


def test_what_went_through_an_open_gate_is_drained_before_anything_more_goes(
    run, agent_at, machine, on_gpu, eventually
):
    agent = agent_at(open_=True)
    program = run(
        "context(); f = kernel(b'k_30ms'); launch(f, times=8); say(0); heard(); launch(f); say(1)", agent=agent
    )
    assert program.hear() == 0
    member = agent.member()
    assert (member.client["submissions"], member.client["in_flight"]) == (0, 0), "an open gate notes nothing"
    member.shut(State.RUN)
    program.tell(0)
    assert program.hear() == 1
    assert not member.client["flags"] & ClientFlag.UNTRACKED
    assert member.client["submissions"] == 1
    program.finish()


def test_threads_are_held_alike(run, agent_at, on_gpu, eventually):
    agent = agent_at(state=State.STOP)
    program = run("""
context(); f = kernel(b"k_10us"); main = ok(d.cuCtxGetCurrent())
def work():
    ok(d.cuCtxSetCurrent(main)); launch(f, ok(d.cuStreamCreate(1)), times=20)
threads = [threading.Thread(target=work) for _ in range(6)]
[t.start() for t in threads]; [t.join() for t in threads]; ok(d.cuCtxSynchronize()); say("done")
""", agent=agent)  # fmt: skip
    member = agent.member()
    eventually(lambda: member.client["waiting"] == 6, "six threads that are held")
    assert on_gpu(program.process.pid) == 0
    member.grant(State.RUN)
    assert program.finish() == ["done"]
    assert member.client["submissions"] == 120
    assert member.client["waiting"] == 0
