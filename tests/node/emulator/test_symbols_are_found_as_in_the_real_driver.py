"""Every way by which programs look driver calls up, and what is not modelled says so."""

import os

from pillion_node.emulator import library_directory

CTYPES = """
import ctypes, json, os, sys
lib = ctypes.CDLL("libcuda.so.1")
def look(name, version, flags=0):
    at, status = ctypes.c_void_p(), ctypes.c_int(-1)
    code = lib.cuGetProcAddress_v2(name.encode(), ctypes.byref(at), version, ctypes.c_uint64(flags), ctypes.byref(status))
    return code, status.value, at.value
def address(symbol):
    return ctypes.cast(getattr(lib, symbol), ctypes.c_void_p).value
def say(*what):
    print(json.dumps(what), flush=True)
"""


def test_names_resolve_by_version_and_default_stream(machine, client):
    said = client(
        machine,
        """
        cases = [("cuMemAlloc", 3020, 0, "cuMemAlloc_v2"), ("cuMemAlloc", 2000, 0, "cuMemAlloc"),
                 ("cuCtxCreate", 11000, 0, "cuCtxCreate_v2"), ("cuCtxCreate", 11040, 0, "cuCtxCreate_v3"),
                 ("cuCtxCreate", 13000, 0, "cuCtxCreate_v4"), ("cuLaunchKernel", 13000, 0, "cuLaunchKernel"),
                 ("cuLaunchKernel", 13000, 2, "cuLaunchKernel_ptsz"), ("cuLaunchKernel", 13000, 1, "cuLaunchKernel"),
                 ("cuMemcpyHtoD", 12000, 2, "cuMemcpyHtoD_v2_ptds"), ("cuMemAlloc", 12000, 2, "cuMemAlloc_v2"),
                 ("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"), ("cuGraphLaunch", 12000, 2, "cuGraphLaunch_ptsz"),
                 ("cuStreamGetCaptureInfo", 11030, 2, "cuStreamGetCaptureInfo_v2_ptsz")]
        say([name for name, version, flags, symbol in cases if look(name, version, flags) != (0, 0, address(symbol))])
        """,
        prelude=CTYPES,
    ).finish()
    assert said == []


def test_unknown_and_too_new_names_are_told_apart(machine, client):
    said = client(
        machine,
        """
        at = ctypes.c_void_p()
        old = lib.cuGetProcAddress(b"cuNoSuchCall", ctypes.byref(at), 12000, ctypes.c_uint64(0))
        say(look("cuNoSuchCall", 12000), look("cuLaunchKernelEx", 11000), look("cuInit", 2000)[:2], old,
            lib.cuGetExportTable(ctypes.byref(at), bytes(16)))
        """,
        prelude=CTYPES,
    ).finish()
    assert said == [[0, 1, None], [0, 2, None], [0, 0], 500, 500]


def test_every_call_of_the_header_is_there_and_unmodelled_ones_say_so(machine, client):
    said = client(
        machine,
        """
        lib.cuInit(0)
        say([lib.cuGLInit() if hasattr(lib, "cuGLInit") else None, lib.cuIpcGetMemHandle(None, 0), lib.cuTexObjectCreate(0, 0, 0, 0),
             lib.cuMulticastCreate(0, 0)])
        """,
        prelude=CTYPES,
        environment={"PILLION_EMULATED_VERBOSE": ""},
    )
    out, errors = said.process.communicate()
    assert out.strip() == "[[null, 801, 801, 801]]"
    assert errors.splitlines() == [
        f"pillion emulated GPU: {name} is not modelled"
        for name in ("cuIpcGetMemHandle", "cuTexObjectCreate", "cuMulticastCreate")
    ]


def test_per_thread_entry_points_use_the_threads_own_stream(machine, client):
    said = client(
        machine,
        """
        context()
        f = kernel(b"spin_200ms")
        g = kernel(b"k_1ms")
        launch(f, d.CUstream(2))          # the per-thread stream of this thread
        other = []
        import threading
        def run():
            ok(d.cuCtxSetCurrent(ok(d.cuDevicePrimaryCtxRetain(0))))
            other.append(d.cuStreamQuery(d.CUstream(2))[0].name)
        thread = threading.Thread(target=run)
        thread.start(); thread.join()
        say(d.cuStreamQuery(d.CUstream(2))[0].name, other[0])
        """,
    ).finish()
    assert said == ["CUDA_ERROR_NOT_READY", "CUDA_SUCCESS"]


def test_the_legacy_stream_waits_for_blocking_streams_only(machine, client):
    said = client(
        machine,
        """
        context()
        f, g = kernel(b"spin_3ms"), kernel(b"k_1ms")
        blocking, free = ok(d.cuStreamCreate(0)), ok(d.cuStreamCreate(1))
        ends = [ok(d.cuEventCreate(0)) for _ in range(4)]
        start = ok(d.cuEventCreate(0))
        hold = kernel(b"first_2ms")
        launch(hold, free)
        ok(d.cuEventRecord(start, free))
        launch(f, blocking); ok(d.cuEventRecord(ends[0], blocking))
        launch(g, 0); ok(d.cuEventRecord(ends[1], 0))
        launch(g, blocking); ok(d.cuEventRecord(ends[2], blocking))
        launch(g, free); ok(d.cuEventRecord(ends[3], free))
        ok(d.cuCtxSynchronize())
        say([round(ok(d.cuEventElapsedTime(start, e)), 4) for e in ends])
        """,
    ).finish()
    blocking, legacy, after, free = said
    assert legacy > blocking  # waits for the blocking stream's kernel
    assert after > legacy  # and is waited for
    assert free < legacy  # the non-blocking stream went between
    assert max(said) == 6.0


def test_a_forked_child_cannot_use_the_parents_driver_and_does_not_harm_it(machine, client):
    said = client(
        machine,
        """
        context()
        memory = ok(d.cuMemAlloc(1 << 20))
        child = os.fork()
        if child == 0:
            codes = {d.cuInit(0)[0].name, d.cuMemAlloc(64)[0].name, d.cuMemFree(memory)[0].name, d.cuCtxSynchronize()[0].name}
            os._exit(0 if codes == {"CUDA_ERROR_NOT_INITIALIZED"} else 1)
        status = os.waitpid(child, 0)[1]
        launch(kernel(b"k_1ms"))
        ok(d.cuCtxSynchronize())
        ok(d.cuMemFree(memory))
        say(status, ok(d.cuMemGetInfo())[0])
        """,
    ).finish()
    assert said == [0, 1 << 30]


def test_a_child_forked_before_the_first_call_starts_afresh(machine, client):
    said = client(
        machine,
        """
        child = os.fork()
        context()
        launch(kernel(b"k_1ms"))
        ok(d.cuCtxSynchronize())
        if child == 0:
            os._exit(0)
        say(os.waitpid(child, 0)[1])
        """,
    ).finish()
    assert said == 0


def test_threads_share_a_context(machine, client):
    said = client(
        machine,
        """
        import threading
        context()
        f = kernel(b"k_20us")
        primary = ok(d.cuCtxGetCurrent())
        def run():
            ok(d.cuCtxSetCurrent(primary))
            s = ok(d.cuStreamCreate(1))
            for _ in range(50):
                launch(f, s, 4)
                ok(d.cuStreamSynchronize(s))
            ok(d.cuStreamDestroy(s))
        threads = [threading.Thread(target=run) for _ in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        say("done")
        """,
    ).finish()
    assert said == "done"


def test_the_libraries_are_silent_and_export_nothing_else(machine):
    symbols = {}
    for name, prefix in (("libcuda.so.1", b"cu"), ("libnvidia-ml.so.1", b"nvml")):
        raw = os.popen(f"nm -D --defined-only {library_directory() / name}").read().split()[2::3]
        symbols[name] = [symbol for symbol in raw if not symbol.encode().startswith(prefix)]
    assert symbols == {"libcuda.so.1": [], "libnvidia-ml.so.1": []}
