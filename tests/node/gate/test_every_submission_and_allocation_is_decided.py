"""NVIDIA's installed headers, read again: whatever queues work or hands out device memory is gated or passes for a reason."""

import re
import shutil
import subprocess

import pytest

PRESENT = ("cuLaunchKernel", "cuLaunchKernel_ptsz", "cuLaunchKernelEx", "cuLaunchCooperativeKernel", "cuGraphLaunch_ptsz",
           "cuLaunchCooperativeKernelMultiDevice", "cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds", "cuMemcpyDtoHAsync_v2_ptsz",
           "cuMemcpyBatchAsync_v2", "cuMemcpyBatchAsync_ptsz", "cuMemcpy3DPeerAsync", "cuMemsetD2D32Async_ptsz", "cuMemAlloc_v2",
           "cuMemAlloc", "cuMemAllocPitch_v2", "cuMemAllocManaged", "cuMemAllocAsync_ptsz", "cuMemAllocFromPoolAsync",
           "cuMemCreate", "cuArrayCreate_v2", "cuArray3DCreate_v2", "cuMipmappedArrayCreate")  # fmt: skip


@pytest.fixture(scope="module")
def driver(compiling):
    return compiling.read_surface()


def test_nothing_is_undecided(compiling, driver):
    assert compiling.surface.undecided(driver) == []


def test_what_passes_through_is_declared_and_looks_like_something_to_decide(compiling, driver):
    surface = compiling.surface
    suspects = {
        surface.base_name(call.symbol)
        for call in (*driver.current, *driver.earlier)
        if surface.submits_or_allocates(call)
    }
    assert set(surface.PASS_THROUGH) <= suspects, "an explanation for something that is not there any more"
    assert all(surface.PASS_THROUGH.values())


def test_a_name_is_gated_or_passed_through_not_both(compiling):
    surface = compiling.surface
    assert not set(surface.AROUND) & set(surface.PASS_THROUGH)
    assert not [name for name in surface.PASS_THROUGH if surface.SUBMISSIONS.fullmatch(name)]


def test_a_new_submission_in_a_later_header_is_noticed(compiling, driver):
    native_symbols = compiling.native_symbols
    novel = native_symbols.Call("cuLaunchNovelty", "CUfunction f, CUstream hStream", "_ptsz")
    gift = native_symbols.Call("cuMemNovelAlloc_v2", "CUdeviceptr *dptr, size_t bytesize")
    later = native_symbols.Driver((*driver.current, novel, gift), driver.earlier, driver.lookup, driver.errors)
    assert compiling.surface.undecided(later) == ["cuLaunchNovelty", "cuMemNovelAlloc"]


def test_every_version_and_variant_has_an_entry_point(compiling, driver):
    points = compiling.surface.entry_points(driver)
    assert set(PRESENT) <= set(points)
    for name in [*compiling.surface.AROUND, "cuLaunchKernel", "cuMemcpyHtoD", "cuMemsetD8"]:
        declared = {symbol for symbol in driver.symbols if compiling.surface.base_name(symbol) == name}
        assert declared, name
        assert declared <= set(points)


def test_the_library_shows_its_entry_points_and_nothing_else(compiling, driver, gate_library):
    if shutil.which("nm") is None:
        pytest.skip("nm (binutils) is not here")
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(gate_library)], check=True, capture_output=True, text=True
    ).stdout
    shown = {line.split()[-1].partition("@")[0] for line in listed.splitlines()}
    surface = compiling.surface
    assert shown == {*surface.entry_points(driver), *surface.NVML, *surface.OTHER_EXPORTS}


POSIX = [
    "__cxa_atexit",
    "__cxa_finalize",
    "__errno_location",
    "__fxstat",
    "abort",
    "access",
    "atexit",
    "bcmp",
    "calloc",
    "clock_gettime",
    "close",
    "connect",
    "dl_iterate_phdr",
    "dladdr",
    "eventfd",
    "fcntl",
    "free",
    "fstat",
    "getenv",
    "getrlimit",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "mmap",
    "mprotect",
    "munmap",
    "poll",
    "prctl",
    "pthread_attr_destroy",
    "pthread_attr_init",
    "pthread_attr_setdetachstate",
    "pthread_attr_setstacksize",
    "pthread_create",
    "pthread_mutex_init",
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "pthread_once",
    "pthread_sigmask",
    "read",
    "recvmsg",
    "sendmsg",
    "sigfillset",
    "socket",
    "strchr",
    "strcmp",
    "strcpy",
    "strlen",
    "strncmp",
    "strrchr",
    "syscall",
    "sysconf",
    "write",
]
"""What musl has as well: a missing symbol would end every process of an Alpine image at its start."""


@pytest.mark.parametrize("machine_name", ["x86_64", "aarch64"])
def test_it_needs_nothing_newer_than_glibc_2_17_and_nothing_that_musl_lacks(machine_name, compiling, tmp_path):
    pytest.importorskip(
        "ziglang", reason="ziglang is not installed here: it is the compiler that targets old C libraries"
    )
    if shutil.which("nm") is None:
        pytest.skip("nm (binutils) is not here")
    library = compiling.compile_gate(tmp_path / "gate.so", machine=machine_name)
    listed = subprocess.run(
        ["nm", "-D", "--undefined-only", str(library)], check=True, capture_output=True, text=True
    ).stdout
    needed = [line.split()[-2:] for line in listed.splitlines()]
    assert {name.partition("@")[0] for kind, name in needed if kind == "U"} <= set(POSIX)
    versions = {tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", listed)}
    assert versions
    assert max(versions) <= (2, 17)
    assert (
        "ld-linux"
        not in subprocess.run(["readelf", "-d", str(library)], check=True, capture_output=True, text=True).stdout
    )
