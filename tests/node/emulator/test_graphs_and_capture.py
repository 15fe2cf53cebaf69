"""Graphs: captured or built by hand, launched as one submission; and what capture forbids."""

import pytest

from pillion_node.emulator import Machine

MS = 1_000_000


def only_context(machine):
    with Machine.open(machine) as opened:
        (context,) = opened.snapshot().contexts
    return context


CAPTURE = """
context()
f = kernel(b"spin_500us")
s, t = ok(d.cuStreamCreate(1)), ok(d.cuStreamCreate(1))
e = ok(d.cuEventCreate(2))
ok(d.cuStreamBeginCapture(s, d.CUstreamCaptureMode.{mode}))
"""


def test_a_captured_graph_takes_the_time_of_its_kernels(machine, client):
    said = client(
        machine,
        CAPTURE.format(mode="CU_STREAM_CAPTURE_MODE_GLOBAL")
        + """
launch(f, s, 20)
graph = ok(d.cuStreamEndCapture(s))
count = ok(d.cuGraphGetNodes(graph))[1]
run = ok(d.cuGraphInstantiate(graph, 0))
before, after = ok(d.cuEventCreate(0)), ok(d.cuEventCreate(0))
launch(f, s)
ok(d.cuEventRecord(before, s))
ok(d.cuGraphLaunch(run, s))
ok(d.cuEventRecord(after, s))
ok(d.cuStreamSynchronize(s))
say(count, ok(d.cuEventElapsedTime(before, after)))
""",
    ).finish()
    assert said == [20, pytest.approx(10.0, abs=1e-4)]
    context = only_context(machine)
    assert (context.launches, context.graph_launches, context.units_done) == (1, 1, 21)


def test_capture_follows_events_into_other_streams(machine, client):
    said = client(
        machine,
        CAPTURE.format(mode="CU_STREAM_CAPTURE_MODE_GLOBAL")
        + """
launch(f, s)
ok(d.cuEventRecord(e, s))
ok(d.cuStreamWaitEvent(t, e, 0))
launch(f, t)
launch(f, s)
ok(d.cuEventRecord(e, t))
ok(d.cuStreamWaitEvent(s, e, 0))
launch(f, s)
graph = ok(d.cuStreamEndCapture(s))
nodes = ok(d.cuGraphGetNodes(graph, 4))[0]
before = [sorted(nodes.index(n) for n in ok(d.cuGraphNodeGetDependencies(node, 2))[0][:2] if int(n)) for node in nodes]
say(before, ok(d.cuStreamIsCapturing(t)).name)
""",
    ).finish()
    assert said == [[[], [0], [0], [1, 2]], "CU_STREAM_CAPTURE_STATUS_NONE"]
    assert only_context(machine).launches == 0


@pytest.mark.parametrize(
    ("what", "error", "end"),
    [
        ("d.cuStreamSynchronize(s)", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"),
        ("d.cuStreamQuery(s)", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"),
        ("d.cuCtxSynchronize()", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"),
        ("d.cuEventSynchronize(e)", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"),
        ("d.cuMemAlloc(64)", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"),
        ("d.cuMemsetD8(int(m), 0, 64)", "CUDA_SUCCESS", "CUDA_SUCCESS"),
        ("d.cuStreamBeginCapture(s, d.CUstreamCaptureMode(0))", "CUDA_ERROR_ILLEGAL_STATE", "CUDA_SUCCESS"),
        ("d.cuStreamEndCapture(t)", "CUDA_ERROR_ILLEGAL_STATE", "CUDA_SUCCESS"),
    ],
)
def test_capture_refuses_what_cannot_be_captured(machine, client, what, error, end):
    script = CAPTURE.replace("ok(d.cuStreamBegin", "m = ok(d.cuMemAlloc(64))\nok(d.cuStreamBegin")
    said = client(
        machine,
        script.format(mode="CU_STREAM_CAPTURE_MODE_GLOBAL")
        + f"launch(f, s)\nfirst = {what}[0].name\nsay(first, d.cuStreamEndCapture(s)[0].name)",
    ).finish()
    assert said == [error, end]


def test_relaxed_capture_lets_unsafe_calls_through(machine, client):
    said = client(
        machine,
        CAPTURE.format(mode="CU_STREAM_CAPTURE_MODE_RELAXED")
        + "say(d.cuMemAlloc(64)[0].name, d.cuStreamQuery(t)[0].name, d.cuStreamEndCapture(s)[0].name)",
    ).finish()
    assert said == ["CUDA_SUCCESS"] * 3


def test_a_stream_that_is_not_joined_again_spoils_the_capture(machine, client):
    said = client(
        machine,
        CAPTURE.format(mode="CU_STREAM_CAPTURE_MODE_GLOBAL")
        + """
launch(f, s)
ok(d.cuEventRecord(e, s))
ok(d.cuStreamWaitEvent(t, e, 0))
launch(f, t)
query = d.cuEventQuery(e)[0].name
say(query, d.cuStreamEndCapture(s)[0].name)
""",
    ).finish()
    assert said == ["CUDA_ERROR_CAPTURED_EVENT", "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"]


def test_a_graph_of_many_alike_kernels_is_one_piece_and_one_of_too_many_kinds_is_refused(machine, client):
    said = client(
        machine,
        CAPTURE.format(mode="CU_STREAM_CAPTURE_MODE_RELAXED")
        + """
tiny, other = kernel(b"k_100ns"), kernel(b"k_200ns")
launch(tiny, s, 10000)
run = ok(d.cuGraphInstantiate(ok(d.cuStreamEndCapture(s)), 0))
ok(d.cuGraphLaunch(run, s))
ok(d.cuStreamSynchronize(s))
ok(d.cuStreamBeginCapture(s, d.CUstreamCaptureMode(2)))
for _ in range(3700):
    launch(tiny, s)
    launch(other, s)
say(d.cuGraphInstantiate(ok(d.cuStreamEndCapture(s)), 0)[0].name)
""",
    ).finish()
    assert said == "CUDA_ERROR_NOT_SUPPORTED"
    context = only_context(machine)
    assert (context.graph_launches, context.units_done, context.busy_ns) == (1, 10_000, MS)


def test_memory_that_a_graph_allocates_is_taken_by_its_launch_and_given_back_with_it(machine, client):
    said = client(
        machine,
        CAPTURE.format(mode="CU_STREAM_CAPTURE_MODE_RELAXED")
        + """
def taken():
    free, total = ok(d.cuMemGetInfo())
    return (total - free) >> 20
at = ok(d.cuMemAllocAsync(200 << 20, s))
ok(d.cuMemsetD8Async(at, 3, 16, s))
ok(d.cuMemFreeAsync(at, s))
graph = ok(d.cuStreamEndCapture(s))
run = ok(d.cuGraphInstantiate(graph, 0))
steps = [taken()]
for _ in range(2):
    ok(d.cuGraphLaunch(run, s))
ok(d.cuStreamSynchronize(s))
back = bytearray(2)
ok(d.cuMemcpyDtoH(back, at, 2))
steps.append(taken())
ok(d.cuDeviceGraphMemTrim(0))
steps.append(taken())
other = ok(d.cuMemAlloc(900 << 20))
steps.append(d.cuGraphLaunch(run, s)[0].name)
ok(d.cuMemFree(other))
ok(d.cuGraphLaunch(run, s))
ok(d.cuStreamSynchronize(s))
ok(d.cuGraphExecDestroy(run))
ok(d.cuGraphDestroy(graph))
say(*steps, taken(), back.hex())
""",
    ).finish()
    assert said == [0, 200, 0, "CUDA_ERROR_OUT_OF_MEMORY", 0, "0303"]


def test_destroying_the_capturing_stream_ends_the_capture(machine, client):
    said = client(
        machine,
        CAPTURE.format(mode="CU_STREAM_CAPTURE_MODE_GLOBAL")
        + "launch(f, s)\nok(d.cuStreamDestroy(s))\nlaunch(f, t)\nsay(d.cuStreamSynchronize(t)[0].name)",
    ).finish()
    assert said == "CUDA_SUCCESS"


def test_a_graph_built_by_hand_copies_sets_calls_back_and_can_be_changed(machine, client):
    said = client(
        machine,
        """
        import ctypes
        context()
        short, long = kernel(b"spin_1ms"), kernel(b"burn_4ms")
        memory = ok(d.cuMemAlloc(64))
        graph = ok(d.cuGraphCreate(0))
        calls = []
        @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        def note(_):
            calls.append(len(calls))
        p = d.CUDA_KERNEL_NODE_PARAMS()
        p.func, p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ = short, 1, 1, 1, 1, 1, 1
        first = ok(d.cuGraphAddKernelNode(graph, None, 0, p))
        m = d.CUDA_MEMSET_NODE_PARAMS()
        m.dst, m.value, m.elementSize, m.width, m.height = memory, 5, 1, 64, 1
        fill = ok(d.cuGraphAddMemsetNode(graph, [first], 1, m, ok(d.cuCtxGetCurrent())))
        h = d.CUDA_HOST_NODE_PARAMS()
        h.fn = d.CUhostFn(ctypes.cast(note, ctypes.c_void_p).value)
        tell = ok(d.cuGraphAddHostNode(graph, [fill], 1, h))
        ok(d.cuGraphAddKernelNode(graph, [tell], 1, p))
        run = ok(d.cuGraphInstantiate(graph, 0))
        s = ok(d.cuStreamCreate(1))
        ok(d.cuGraphLaunch(run, s))
        ok(d.cuStreamSynchronize(s))
        p.func = long
        ok(d.cuGraphExecKernelNodeSetParams(run, first, p))
        ok(d.cuGraphNodeSetEnabled(run, fill, 0))
        ok(d.cuGraphLaunch(run, s))
        ok(d.cuStreamSynchronize(s))
        back = bytearray(2)
        ok(d.cuMemcpyDtoH(back, memory, 2))
        say(calls, back.hex(), ok(d.cuGraphGetNodes(graph))[1])
        """,
    ).finish()
    assert said == [[0, 1], "0505", 4]
    copies_ns = 1_000 + 1_000  # the set once and the copy at the end, by their fixed cost; their few bytes take no time
    assert only_context(machine).busy_ns == pytest.approx((1 + 1 + 4 + 1) * MS + copies_ns, abs=10)


def test_an_executable_graph_takes_over_a_graph_of_the_same_shape_only(machine, client):
    said = client(
        machine,
        CAPTURE.format(mode="CU_STREAM_CAPTURE_MODE_GLOBAL")
        + """
launch(f, s, 3)
graph = ok(d.cuStreamEndCapture(s))
run = ok(d.cuGraphInstantiate(graph, 0))
def captured(name, times):
    ok(d.cuStreamBeginCapture(s, d.CUstreamCaptureMode(0)))
    launch(kernel_of[name], s, times)
    return ok(d.cuStreamEndCapture(s))
kernel_of = {n: kernel(n) for n in (b"other_2ms",)}
same = d.cuGraphExecUpdate(run, captured(b"other_2ms", 3))[0].name
other = d.cuGraphExecUpdate(run, captured(b"other_2ms", 4))[0].name
ok(d.cuGraphLaunch(run, s))
ok(d.cuStreamSynchronize(s))
say(same, other)
""",
    ).finish()
    assert said == ["CUDA_SUCCESS", "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"]
    assert only_context(machine).busy_ns == 6 * MS
