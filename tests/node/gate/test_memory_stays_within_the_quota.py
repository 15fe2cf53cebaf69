"""A tenant sees a card of the size of its quota, on every way to allocate, over all its processes, whatever it does."""

import pytest

from pillion_node.pages import State

MIB = 1 << 20
QUOTA = 64 * MIB

HELPERS = """
M = 1 << 20
OOM = d.CUresult.CUDA_ERROR_OUT_OF_MEMORY
def info():
    return ok(d.cuMemGetInfo())
context()
device = ok(d.cuDeviceGet(0))
prop = d.CUmemAllocationProp(); prop.type = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
prop.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE; prop.location.id = 0
def array(mib):
    desc = d.CUDA_ARRAY_DESCRIPTOR(); desc.Width = mib * M // 4; desc.Height = 1
    desc.Format = d.CUarray_format.CU_AD_FORMAT_FLOAT; desc.NumChannels = 1
    return d.cuArrayCreate(desc)
def array3d(mib):
    desc = d.CUDA_ARRAY3D_DESCRIPTOR(); desc.Width = 1024; desc.Height = 256; desc.Depth = mib
    desc.Format = d.CUarray_format.CU_AD_FORMAT_FLOAT; desc.NumChannels = 1
    return d.cuArray3DCreate(desc)

PATHS = {
    "alloc": (lambda mib: d.cuMemAlloc(mib * M), d.cuMemFree),
    "managed": (lambda mib: d.cuMemAllocManaged(mib * M, d.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL), d.cuMemFree),
    "pitch": (lambda mib: d.cuMemAllocPitch(1 << 20, mib, 4)[:2], d.cuMemFree),
    "async": (lambda mib: d.cuMemAllocAsync(mib * M, 0), lambda p: d.cuMemFreeAsync(p, 0)),
    "pool": (lambda mib: d.cuMemAllocFromPoolAsync(mib * M, ok(d.cuDeviceGetDefaultMemPool(device)), 0), lambda p: d.cuMemFreeAsync(p, 0)),
    "create": (lambda mib: d.cuMemCreate(mib * M, prop, 0), d.cuMemRelease),
    "array": (array, d.cuArrayDestroy),
    "array3d": (array3d, d.cuArrayDestroy),
}
"""


@pytest.fixture
def agent(agent_at):
    return agent_at(memory_quota_bytes=QUOTA)


@pytest.mark.parametrize("path", ["alloc", "managed", "pitch", "async", "pool", "create", "array", "array3d"])
def test_beyond_it_an_allocation_fails_as_on_a_smaller_card(path, run, agent):
    program = run(HELPERS + """
allocate, free = PATHS[sys.argv[1]]
first = ok(allocate(40)); say(info())
say(allocate(40)[0] == OOM)
ok(free(first)); say(info())
ok(free(ok(allocate(60)))); say("fits")
""", path, agent=agent)  # fmt: skip
    assert program.finish() == [[24 * MIB, QUOTA], True, [QUOTA, QUOTA], "fits"]
    member = agent.member()
    assert (member.client["denied_allocations"], member.client["denied_bytes"]) == (1, 40 * MIB)
    assert agent.ledger.item("bytes", member.slot) == 0


def test_the_size_of_the_card_is_the_quota_for_the_driver_and_for_nvml(run, agent):
    pytest.importorskip("pynvml")
    program = run(HELPERS + """
import pynvml
pynvml.nvmlInit(); handle = pynvml.nvmlDeviceGetHandleByIndex(0)
ok(d.cuMemAlloc(16 * M))
memory = pynvml.nvmlDeviceGetMemoryInfo(handle); second = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
say(ok(d.cuDeviceTotalMem(device)), memory.total, memory.free, memory.used, second.total, second.free)
""", agent=agent)  # fmt: skip
    assert program.finish() == [[QUOTA, QUOTA, 48 * MIB, 16 * MIB, QUOTA, 48 * MIB]]


def test_nvml_tells_the_quota_to_a_program_that_never_starts_cuda(run, agent):
    pytest.importorskip("pynvml")
    program = run("""
import pynvml
pynvml.nvmlInit(); memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0))
say(memory.total, memory.free)
""", agent=agent)  # fmt: skip
    assert program.finish() == [[QUOTA, QUOTA]]


def test_without_an_agent_nothing_is_limited(run):
    program = run(HELPERS + "ok(d.cuMemAlloc(200 * M)); say(info()[1])")
    assert program.finish() == [1 << 30]


def test_freeing_twice_gives_nothing_back_twice(run, agent):
    program = run(HELPERS + """
keep, other = ok(d.cuMemAlloc(40 * M)), ok(d.cuMemAlloc(8 * M))
ok(d.cuMemFree(other)); say(d.cuMemFree(other)[0] != d.CUresult.CUDA_SUCCESS); say(info()[0]); say(d.cuMemAlloc(30 * M)[0] == OOM)
""", agent=agent)  # fmt: skip
    assert program.finish() == [True, 24 * MIB, True]


def test_what_the_driver_refuses_is_not_counted(run, agent_at):
    agent = agent_at(memory_quota_bytes=4 << 30)
    program = run(HELPERS + "say(d.cuMemAlloc(2 << 30)[0] == OOM); say(info()[1])", agent=agent)
    assert program.finish()[0] is True
    assert agent.ledger.item("bytes", 0) == 0
    assert agent.member().client["denied_allocations"] == 0


def test_a_mapping_keeps_memory_that_its_handle_has_let_go(run, agent):
    program = run(HELPERS + """
handle = ok(d.cuMemCreate(40 * M, prop, 0)); at = ok(d.cuMemAddressReserve(40 * M, 0, 0, 0))
ok(d.cuMemMap(at, 40 * M, 0, handle, 0)); ok(d.cuMemRelease(handle)); say(info()[0])
ok(d.cuMemUnmap(at, 40 * M)); say(info()[0])
""", agent=agent)  # fmt: skip
    assert program.finish() == [24 * MIB, QUOTA]


def test_a_context_takes_its_memory_with_it(run, agent):
    program = run(HELPERS + """
other = ok(d.cuCtxCreate(None, 0, device)); ok(d.cuMemAlloc(40 * M)); ok(d.cuCtxDestroy(other)); context(); say(info()[0])
ok(d.cuMemAlloc(40 * M)); ok(d.cuDevicePrimaryCtxReset(device)); context(); say(info()[0])
""", agent=agent)  # fmt: skip
    assert program.finish() == [QUOTA, QUOTA]


def test_all_processes_of_a_tenant_share_one_quota(run, agent):
    first = run(HELPERS + "ok(d.cuMemAlloc(40 * M)); say(0); heard()", agent=agent)
    assert first.hear() == 0
    second = run(
        HELPERS + "say(info()); say(d.cuMemAlloc(30 * M)[0] == OOM); heard(); say(d.cuMemAlloc(30 * M)[0] == OOM)",
        agent=agent,
    )
    assert second.hear() == [24 * MIB, QUOTA]
    assert second.hear() is True
    first.process.kill()
    first.process.wait()
    assert agent.member(0).gone.wait(20)
    agent.ledger.set_item("bytes", agent.member(0).slot, 0)  # what an agent does when a process has ended
    second.tell(0)
    assert second.finish() == [False]


def test_threads_cannot_take_the_last_bytes_twice(run, agent):
    program = run(HELPERS + """
got, start = [], threading.Barrier(8)
def many():
    ok(d.cuCtxSetCurrent(main)); start.wait()
    for _ in range(50):
        error, at = d.cuMemAlloc(M)
        if error == d.CUresult.CUDA_SUCCESS: got.append(at)
main = ok(d.cuCtxGetCurrent())
threads = [threading.Thread(target=many) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
say(len(got)); say(info()[0])
""", agent=agent)  # fmt: skip
    assert program.finish() == [64, 0]


def test_the_quota_holds_while_a_process_must_not_submit(run, agent):
    program = run(HELPERS + "say('up'); heard(); say(d.cuMemAlloc(80 * M)[0] == OOM); say(info()[0])", agent=agent)
    assert program.hear() == "up"
    agent.member().grant(State.STOP)
    program.tell(0)
    assert program.finish() == [True, QUOTA]


def test_memory_nodes_of_graphs_count_until_their_graph_goes(run, agent):
    program = run(HELPERS + """
def node(mib):
    params = d.CUDA_MEM_ALLOC_NODE_PARAMS(); params.poolProps.allocType = prop.type; params.poolProps.location = prop.location
    params.bytesize = mib * M
    return d.cuGraphAddMemAllocNode(graph, None, 0, params)
graph = ok(d.cuGraphCreate(0)); result = node(40)
if result[0] == d.CUresult.CUDA_ERROR_NOT_SUPPORTED:
    say("not supported")
else:
    ok(result); say(info()[0], node(40)[0] == OOM); ok(d.cuGraphDestroy(graph)); say(info()[0])
""", agent=agent)  # fmt: skip
    said = program.finish()
    if said == ["not supported"]:
        pytest.skip("the emulated GPU has no memory nodes in graphs")
    assert said == [[24 * MIB, True], QUOTA]
