"""Capacity, accounts and contents of the emulated memory."""

import pytest

from pillion_node.emulator import Machine

MIB = 1 << 20


def used(machine):
    with Machine.open(machine) as opened:
        return opened.snapshot().memory_used_bytes


def test_bytes_come_back_through_every_kind_of_copy(machine, client):
    said = client(
        machine,
        """
        import ctypes
        context()
        size = 1 << 16
        source = bytes(range(256)) * 256
        a, b = ok(d.cuMemAlloc(size)), ok(d.cuMemAlloc(size))
        back = bytearray(size)
        ok(d.cuMemcpyHtoD(a, source, size))
        ok(d.cuMemcpyDtoD(b, a, size))
        ok(d.cuMemcpyDtoH(back, b, size))
        plain = bytes(back) == source
        s = ok(d.cuStreamCreate(1))
        pinned = ok(d.cuMemAllocHost(size))
        ok(d.cuMemsetD32Async(a, 0x01020304, size // 4, s))
        ok(d.cuMemcpyDtoHAsync(pinned, a, size, s))
        ok(d.cuStreamSynchronize(s))
        sets = ctypes.string_at(pinned, 8)
        box = d.CUDA_MEMCPY2D()
        box.srcMemoryType = box.dstMemoryType = d.CUmemorytype.CU_MEMORYTYPE_DEVICE
        box.srcDevice, box.dstDevice, box.srcPitch, box.dstPitch = b, a, 256, 512
        box.WidthInBytes, box.Height = 16, 8
        ok(d.cuMemcpy2D(box))
        ok(d.cuMemcpyDtoH(back, a, size))
        rows = [bytes(back[r * 512:r * 512 + 16]) == source[r * 256:r * 256 + 16] for r in range(8)]
        managed = ok(d.cuMemAllocManaged(size, 1))
        ok(d.cuMemcpy(managed, b, size))
        say(plain, sets.hex(), all(rows), back[16:20].hex(), ctypes.string_at(int(managed), size) == source)
        """,
    ).finish()
    assert said == [True, "0403020104030201", True, "04030201", True]


def test_bytes_come_back_through_arrays_and_batches(machine, client):
    said = client(
        machine,
        """
        import ctypes
        context()
        shape = d.CUDA_ARRAY_DESCRIPTOR()
        shape.Width, shape.Height, shape.NumChannels = 64, 4, 1
        shape.Format = d.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT8
        array = ok(d.cuArrayCreate(shape))
        source, back = bytes(range(64)), bytearray(64)
        ok(d.cuMemcpyHtoA(array, 0, source, 64))
        a, b = ok(d.cuMemAlloc(64)), ok(d.cuMemAlloc(64))
        ok(d.cuMemcpyAtoD(a, array, 0, 64))
        ok(d.cuMemcpyDtoA(array, 8, a, 8))
        s = ok(d.cuStreamCreate(1))
        attributes = d.CUmemcpyAttributes()
        attributes.srcAccessOrder = d.CUmemcpySrcAccessOrder.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
        ok(d.cuMemcpyBatchAsync([b, d.CUdeviceptr(int(b) + 32)], [a, a], [32, 32], 2, [attributes], [0], 1, s))
        ok(d.cuStreamSynchronize(s))
        ok(d.cuMemcpyDtoH(back, b, 64))
        array_back = bytearray(16)
        ok(d.cuMemcpyAtoH(array_back, array, 0, 16))
        say(bytes(back) == source[:32] * 2, array_back[8:].hex())
        """,
    ).finish()
    assert said == [True, bytes(range(8)).hex()]


def test_a_copy_behind_a_host_function_sees_what_it_wrote(machine, client):
    said = client(
        machine,
        """
        import ctypes
        context()
        s = ok(d.cuStreamCreate(1))
        a, pinned = ok(d.cuMemAlloc(8)), ok(d.cuMemAllocHost(8))
        ctypes.memset(pinned, 1, 8)
        @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        def write(_):
            time.sleep(0.01)
            ctypes.memset(pinned, 7, 8)
        launch(kernel(b"spin_1ms"), s)
        ok(d.cuLaunchHostFunc(s, d.CUhostFn(ctypes.cast(write, ctypes.c_void_p).value), 0))
        ok(d.cuMemcpyHtoDAsync(a, pinned, 8, s))
        ok(d.cuStreamSynchronize(s))
        back = bytearray(8)
        ok(d.cuMemcpyDtoH(back, a, 8))
        say(back.hex())
        """,
    ).finish()
    assert said == "07" * 8


def test_beyond_capacity_is_out_of_memory_for_every_way_to_allocate(machine, client):
    said = client(
        machine,
        """
        context()
        MIB = 1 << 20
        kept = ok(d.cuMemAlloc(1000 * MIB))
        free, total = ok(d.cuMemGetInfo())
        prop = d.CUmemAllocationProp()
        prop.type = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        prop.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        prop.location.id = 0
        shape = d.CUDA_ARRAY_DESCRIPTOR()
        shape.Width, shape.Height, shape.NumChannels = 8 << 20, 2, 4
        shape.Format = d.CUarray_format.CU_AD_FORMAT_FLOAT
        ways = [d.cuMemAlloc(30 * MIB), d.cuMemAllocPitch(30 * MIB, 1, 4), d.cuMemAllocAsync(30 * MIB, 0),
                d.cuMemCreate(30 * MIB, prop, 0), d.cuArrayCreate(shape)]
        fits = d.cuMemAlloc(24 * MIB)[0].name
        say(free // MIB, total // MIB, sorted({way[0].name for way in ways}), fits)
        """,
    ).finish()
    assert said == [24, 1024, ["CUDA_ERROR_OUT_OF_MEMORY"], "CUDA_SUCCESS"]
    assert used(machine) == 0


def test_big_allocations_take_no_host_memory_until_they_are_touched(machine_at, client):
    said = client(
        machine_at(memory_bytes=80 << 30),
        """
        import resource
        context()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ok(d.cuMemAlloc(70 << 30))
        say(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        """,
    ).finish()
    assert said < 2048  # KiB


def test_a_context_takes_its_own_memory_and_gives_it_back(machine_at, client):
    said = client(
        machine_at(memory_bytes=1 << 30, context_bytes=400 << 20),
        """
        context()
        first = ok(d.cuMemGetInfo())[0] >> 20
        ok(d.cuCtxCreate(None, 0, 0))
        second = ok(d.cuMemGetInfo())[0] >> 20
        third = d.cuCtxCreate(None, 0, 0)[0].name
        ok(d.cuCtxDestroy(ok(d.cuCtxGetCurrent())))
        say(first, second, third, ok(d.cuMemGetInfo())[0] >> 20)
        """,
    ).finish()
    assert said == [624, 224, "CUDA_ERROR_OUT_OF_MEMORY", 624]


def test_memory_of_one_process_is_missing_for_the_next_until_it_dies(machine, client):
    first = client(machine, "context()\nok(d.cuMemAlloc(900 << 20))\nsay('up')\nheard()")
    first.hear()
    second = client(
        machine,
        """
        context()
        say(d.cuMemAlloc(200 << 20)[0].name)
        heard()
        say(d.cuMemAlloc(200 << 20)[0].name)
        """,
    )
    assert second.hear() == "CUDA_ERROR_OUT_OF_MEMORY"
    first.kill()
    second.tell("it is gone")
    assert second.hear() == "CUDA_SUCCESS"


def test_mapped_memory_is_one_memory_at_two_addresses(machine, client):
    said = client(
        machine,
        """
        context()
        size = 4 << 20
        prop = d.CUmemAllocationProp()
        prop.type = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        prop.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        grain = ok(d.cuMemGetAllocationGranularity(prop, d.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM))
        handle = ok(d.cuMemCreate(size, prop, 0))
        access = d.CUmemAccessDesc()
        access.location = prop.location
        access.flags = d.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        places = [ok(d.cuMemAddressReserve(size, 0, 0, 0)) for _ in range(2)]
        for place in places:
            ok(d.cuMemMap(place, size, 0, handle, 0))
            ok(d.cuMemSetAccess(place, size, [access], 1))
        ok(d.cuMemRelease(handle))
        ok(d.cuMemsetD8(places[0], 9, size))
        back = bytearray(4)
        ok(d.cuMemcpyDtoH(back, places[1], 4))
        held = ok(d.cuMemGetInfo())
        for place in places:
            ok(d.cuMemUnmap(place, size))
            ok(d.cuMemAddressFree(place, size))
        freed = ok(d.cuMemGetInfo())
        say(grain, back.hex(), held[1] - held[0], freed[1] - freed[0])
        """,
    ).finish()
    assert said == [2 * MIB, "09090909", 4 * MIB, 0]


@pytest.mark.parametrize(
    "call",
    [
        "d.cuMemFree(a); d.cuMemFree(a)",
        "d.cuMemFree(int(a) + 256)",
        "d.cuMemFreeHost(int(a))",
        "d.cuMemcpyHtoD(int(a) + 4096 - 8, b'0123456789', 10)",
        "d.cuMemsetD8(a, 0, 4097)",
        "d.cuMemcpyDtoH(bytearray(8), 12345678, 8)",
        "d.cuMemAlloc(0)",
    ],
)
def test_what_a_real_driver_refuses_is_refused(machine, client, call):
    first, _, second = call.partition("; ")
    lines = f"{first}\nsay(({second})[0].name)" if second else f"say(({first})[0].name)"
    assert client(machine, f"context()\na = ok(d.cuMemAlloc(4096))\n{lines}").finish() == "CUDA_ERROR_INVALID_VALUE"
