"""NVIDIA's own Python packages, as they are on PyPI, on the emulated libraries."""

import importlib.util

import pytest

from pillion_node.emulator import Machine


def test_pynvml_lists_the_devices(machine_at, client):
    path = machine_at(gpus=3, memory_bytes=4 << 30)
    said = client(
        path,
        """
        import pynvml as n
        n.nvmlInit()
        handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
        uuids = [n.nvmlDeviceGetUUID(h) for h in handles]
        assert [n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(u)) for u in uuids] == [0, 1, 2]
        bus = n.nvmlDeviceGetPciInfo(handles[2]).busId
        assert n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId(bus)) == 2
        memory = n.nvmlDeviceGetMemoryInfo(handles[0])
        newer = n.nvmlDeviceGetMemoryInfo(handles[0], version=n.nvmlMemory_v2)
        try:
            n.nvmlDeviceGetTemperature(handles[0], n.NVML_TEMPERATURE_GPU)
        except n.NVMLError as error:
            temperature = str(error)
        load = n.nvmlDeviceGetUtilizationRates(handles[0]).gpu
        say(n.nvmlDeviceGetName(handles[0]), len(set(uuids)), [memory.total, memory.used, memory.free],
            [newer.total, newer.used], temperature, load, n.nvmlDeviceGetComputeRunningProcesses(handles[0]),
            n.nvmlSystemGetDriverVersion(), n.nvmlSystemGetCudaDriverVersion())
        n.nvmlShutdown()
        """,
    ).finish()
    total = 4 << 30
    assert said == [
        "Pillion Emulated GPU", 3, [total, 0, total], [total, 0], "Not Supported", 0, [], "615.00.00", 13050,
    ]  # fmt: skip


def test_nvml_sees_what_a_process_uses(machine, client):
    user = client(machine, "context()\nok(d.cuMemAlloc(64 << 20))\nsay('up')\nheard()")
    assert user.hear() == "up"
    said = client(
        machine,
        """
        import pynvml as n
        n.nvmlInit()
        h = n.nvmlDeviceGetHandleByIndex(0)
        say([[p.pid, p.usedGpuMemory] for p in n.nvmlDeviceGetComputeRunningProcesses(h)], n.nvmlDeviceGetMemoryInfo(h).used)
        """,
    ).finish()
    assert said == [[[user.pid, 64 << 20]], 64 << 20]


def test_cuda_bindings_measures_a_kernel_with_events(machine, client):
    said = client(
        machine,
        """
        context()
        f = kernel(b"spin_2ms")
        s = ok(d.cuStreamCreate(0))
        start, end = ok(d.cuEventCreate(0)), ok(d.cuEventCreate(0))
        blocker = kernel(b"first_1ms")
        launch(blocker, s)              # so that everything below is queued before it begins
        ok(d.cuEventRecord(start, s))
        launch(f, s, 3)
        ok(d.cuEventRecord(end, s))
        busy = d.cuEventQuery(end)[0] == d.CUresult.CUDA_ERROR_NOT_READY
        ok(d.cuEventSynchronize(end))
        say(busy, ok(d.cuEventElapsedTime(start, end)))
        """,
    ).finish()
    assert said[0] is True
    assert said[1] == pytest.approx(6.0, abs=1e-4)  # device time, exact whatever the machine does meanwhile


@pytest.mark.skipif(importlib.util.find_spec("cuda.core") is None, reason="cuda-core is not installed")
def test_cuda_core_allocates_launches_and_builds_graphs(machine, client):
    said = client(
        machine,
        '''
        from cuda.core import Device, LaunchConfig, ObjectCode, launch as core_launch
        gpu = Device()
        gpu.set_current()
        stream = gpu.create_stream()
        module = ObjectCode.from_ptx(b"""
        .version 8.0
        .target sm_80
        .address_size 64
        .visible .entry spin_3ms(.param .u64 out, .param .u32 n) { ret; }
        """)
        kernel = module.get_kernel("spin_3ms")
        buffer = gpu.memory_resource.allocate(1 << 20, stream=stream)
        config = LaunchConfig(grid=64, block=256)
        core_launch(stream, config, kernel, buffer, 7)
        stream.sync()
        builder = gpu.create_graph_builder().begin_building()
        for _ in range(4):
            core_launch(builder, config, kernel, buffer, 7)
        graph = builder.end_building().complete()
        for _ in range(2):
            graph.launch(stream)
        stream.sync()
        from cuda.core.graph import GraphBuilder
        called = []
        branches = gpu.create_graph_builder().begin_building().split(2)
        for branch in branches:
            core_launch(branch, config, kernel, buffer, 7)
        joined = GraphBuilder.join(*branches)
        joined.callback(lambda: called.append("called"))
        joined.end_building().complete().launch(stream)
        stream.sync()
        buffer.close(stream)
        say(gpu.name, tuple(gpu.compute_capability), kernel.attributes.max_threads_per_block, called)
        ''',
    ).finish()
    assert said == ["Pillion Emulated GPU", [8, 0], 1024, ["called"]]
    with Machine.open(machine) as opened:
        (context,) = opened.snapshot().contexts
    assert (context.launches, context.graph_launches, context.units_done) == (1, 3, 11)
    assert context.busy_ns == 11 * 3_000_000


@pytest.mark.skipif(importlib.util.find_spec("cuda.core") is None, reason="cuda-core is not installed")
def test_cuda_core_checkpoints_a_process(machine, client):
    target = client(machine, "context()\nok(d.cuMemAlloc(256 << 20))\nsay('up')\nheard()")
    target.hear()
    said = client(
        machine,
        """
        from cuda.core import checkpoint
        from cuda.bindings import driver
        ok(driver.cuInit(0))
        process = checkpoint.Process(int(sys.argv[1])) if len(sys.argv) > 1 else checkpoint.Process(heard()[0])
        states = [str(process.state)]
        for step in (lambda: process.lock(timeout_ms=2000), process.checkpoint, process.restore, process.unlock):
            step()
            states.append(str(process.state))
        say(*[s.rsplit(".")[-1].lower() for s in states])
        """,
    )
    said.tell(target.pid)
    assert said.finish() == ["running", "locked", "checkpointed", "locked", "running"]


def test_without_a_machine_there_is_no_device(tmp_path, client):
    said = client(
        tmp_path / "none",
        """
        import pynvml
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            why = type(error).__name__
        say(d.cuInit(0)[0].name, why)
        """,
    ).finish()
    assert said == ["CUDA_ERROR_NO_DEVICE", "NVMLError_DriverNotLoaded"]


@pytest.mark.parametrize(
    ("chosen", "seen"), [("1", [1]), ("2,0", [2, 0]), ("0,7,1", [0]), ("1,1", None), ("", None), ("-1", None)]
)
def test_cuda_visible_devices_is_heard(machine_at, client, chosen, seen):
    said = client(
        machine_at(gpus=3),
        """
        if d.cuInit(0)[0] != d.CUresult.CUDA_SUCCESS:
            say(None)
        else:
            say([ok(d.cuDeviceGetAttribute(d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i)) - 1
                 for i in range(ok(d.cuDeviceGetCount()))])
        """,
        environment={"CUDA_VISIBLE_DEVICES": chosen},
    ).finish()
    assert said == seen
