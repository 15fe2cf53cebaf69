"""Which driver calls the gate stands in front of, and the C that stands there: made from NVIDIA's headers when built.

Every version of a call and every per-thread-default-stream variant of it gets its own entry point with the header's own
prototype, so no prototype is copied by hand. What a call means to the gate is said once, by its name without a version.
"""  # noqa: INP001 - a script beside its C

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol


class Declaration(Protocol):
    """A function of the driver as native_symbols reads it from the header."""

    symbol: str
    parameters: str
    variant: str


class DriverSurface(Protocol):
    """What native_symbols.read_driver returns."""

    current: tuple[Declaration, ...]
    earlier: tuple[Declaration, ...]
    lookup: tuple[tuple[str, int, bool, str], ...]


class SurfaceError(RuntimeError):
    """The header declares something that this module does not know how to treat."""


@dataclass(frozen=True)
class Around:
    """C before and after the real call; `result` is what it returned."""

    before: str = ""
    after: str = ""


def _allocation(bytes_: str, key: str, kind: str = "POINTER") -> Around:
    return Around(
        f"struct gate_room room;\n  if (!gate_reserve(&room, {bytes_})) return CUDA_ERROR_OUT_OF_MEMORY;",
        f"gate_settle(&room, GATE_{kind}, result == CUDA_SUCCESS ? (uint64_t){key} : 0);",
    )


def _free(key: str, kind: str = "POINTER") -> Around:
    # Forgotten first: once it is free, another thread may be given the same address.
    return Around(
        f"struct gate_block block = gate_forget(GATE_{kind}, (uint64_t){key});",
        "if (result != CUDA_SUCCESS) gate_remember(&block);",
    )


def _done(what: str) -> Around:
    return Around("struct gate_seen seen;\n  gate_seen_" + what, "if (result == CUDA_SUCCESS) gate_seen_done(&seen);")


AROUND = MappingProxyType(
    {
        # Memory that counts towards the quota.
        "cuMemAlloc": _allocation("bytesize", "*dptr"),
        "cuMemAllocManaged": _allocation("bytesize", "*dptr"),
        "cuMemAllocAsync": _allocation("bytesize", "*dptr"),
        "cuMemAllocFromPoolAsync": _allocation("bytesize", "*dptr"),
        "cuMemAllocPitch": Around(
            "struct gate_room room;\n"
            "  if (!gate_reserve(&room, gate_times(WidthInBytes, Height))) return CUDA_ERROR_OUT_OF_MEMORY;",
            "if (result == CUDA_SUCCESS && !gate_extend(&room, gate_times(*pPitch, Height))) {\n"
            "    GATE_REAL(cuMemFree_v2)(*dptr);\n    result = CUDA_ERROR_OUT_OF_MEMORY;\n  }\n"
            "  gate_settle(&room, GATE_POINTER, result == CUDA_SUCCESS ? (uint64_t)*dptr : 0);",
        ),
        "cuMemCreate": _allocation("gate_created_bytes(size, prop)", "*handle", "HANDLE"),
        "cuArrayCreate": _allocation("gate_array_bytes(pAllocateArray)", "(uintptr_t)*pHandle", "ARRAY"),
        "cuArray3DCreate": _allocation("gate_array3d_bytes(pAllocateArray, 1)", "(uintptr_t)*pHandle", "ARRAY"),
        "cuMipmappedArrayCreate": _allocation(
            "gate_array3d_bytes(pMipmappedArrayDesc, numMipmapLevels)", "(uintptr_t)*pHandle", "ARRAY"
        ),
        "cuMemFree": _free("dptr"),
        "cuMemFreeAsync": _free("dptr"),
        "cuArrayDestroy": _free("(uintptr_t)hArray", "ARRAY"),
        "cuMipmappedArrayDestroy": _free("(uintptr_t)hMipmappedArray", "ARRAY"),
        "cuMemRelease": Around("", "if (result == CUDA_SUCCESS) gate_handle_released(handle);"),
        "cuMemRetainAllocationHandle": Around("", "if (result == CUDA_SUCCESS) gate_handle_retained(*handle);"),
        "cuMemMap": Around("", "if (result == CUDA_SUCCESS) gate_handle_mapped(handle, ptr, size);"),
        "cuMemUnmap": Around("", "if (result == CUDA_SUCCESS) gate_handle_unmapped(ptr, size);"),
        "cuGraphAddMemAllocNode": Around(
            "struct gate_room room;\n"
            "  if (!gate_reserve(&room, nodeParams ? nodeParams->bytesize : 0)) return CUDA_ERROR_OUT_OF_MEMORY;",
            "gate_settle(&room, GATE_POINTER, result == CUDA_SUCCESS ? (uint64_t)nodeParams->dptr : 0);\n"
            "  if (result == CUDA_SUCCESS) gate_owned_by_graph((uint64_t)nodeParams->dptr, hGraph);",
        ),
        "cuGraphAddMemFreeNode": _free("dptr"),
        "cuGraphDestroy": Around("", "if (result == CUDA_SUCCESS) gate_graph_gone(hGraph);"),
        "cuMemGetInfo": Around(
            "",
            "if (result == CUDA_SUCCESS) {\n    size_t left = *free, all = *total;\n"
            "    gate_tell_memory(&left, &all);\n    *free = left, *total = all;\n  }",
        ),
        "cuDeviceTotalMem": Around(
            "",
            "if (result == CUDA_SUCCESS) {\n    size_t left = 0, all = *bytes;\n"
            "    gate_tell_memory(&left, &all);\n    *bytes = all;\n  }",
        ),
        # Contexts and what lives in them.
        "cuInit": Around("", "if (result == CUDA_SUCCESS) gate_join();"),
        "cuDevicePrimaryCtxRetain": Around("", "if (result == CUDA_SUCCESS) gate_primary_context(dev, *pctx);"),
        "cuDevicePrimaryCtxRelease": Around(
            "gate_keeper_pause();",
            "gate_keeper_resume();\n  if (result == CUDA_SUCCESS) gate_primary_released(dev, false);",
        ),
        "cuDevicePrimaryCtxReset": Around(
            "gate_keeper_pause();",
            "gate_keeper_resume();\n  if (result == CUDA_SUCCESS) gate_primary_released(dev, true);",
        ),
        "cuCtxDestroy": Around("gate_context_going(ctx);", "if (result == CUDA_SUCCESS) gate_context_gone(ctx);"),
        "cuStreamDestroy": Around("gate_stream_going(hStream);"),
        "cuGraphExecDestroy": Around("gate_graph_exec_gone(hGraphExec);"),
        "cuGraphInstantiate": Around("", "if (result == CUDA_SUCCESS) gate_graph_made(*phGraphExec, hGraph);"),
        "cuGraphInstantiateWithFlags": Around("", "if (result == CUDA_SUCCESS) gate_graph_made(*phGraphExec, hGraph);"),
        "cuGraphInstantiateWithParams": Around(
            "", "if (result == CUDA_SUCCESS) gate_graph_made(*phGraphExec, hGraph);"
        ),
        # Capture: while any is going on, the gate asks before it records events of its own.
        "cuStreamBeginCapture": Around("gate_capture_begins();", "if (result != CUDA_SUCCESS) gate_capture_ended();"),
        "cuStreamBeginCaptureToGraph": Around(
            "gate_capture_begins();", "if (result != CUDA_SUCCESS) gate_capture_ended();"
        ),
        "cuStreamBeginRecaptureToGraph": Around(
            "gate_capture_begins();", "if (result != CUDA_SUCCESS) gate_capture_ended();"
        ),
        "cuStreamBeginCaptureToCig": Around(
            "gate_capture_begins();", "if (result != CUDA_SUCCESS) gate_capture_ended();"
        ),
        "cuStreamEndCapture": Around("", "gate_capture_ended();"),
        "cuStreamEndCaptureToCig": Around("", "gate_capture_ended();"),
        # A high process's own waiting tells when its work is complete.
        "cuCtxSynchronize": _done("all(&seen);"),
        "cuStreamSynchronize": _done("stream(&seen, STREAM(hStream));"),
        "cuStreamQuery": _done("stream(&seen, STREAM(hStream));"),
        "cuEventRecord": Around("", "if (result == CUDA_SUCCESS) gate_seen_recorded(hEvent, STREAM(hStream));"),
        "cuEventRecordWithFlags": Around(
            "", "if (result == CUDA_SUCCESS) gate_seen_recorded(hEvent, STREAM(hStream));"
        ),
        "cuEventSynchronize": _done("event(&seen, hEvent);"),
        "cuEventQuery": _done("event(&seen, hEvent);"),
        # The way to all others.
        "cuGetProcAddress": Around(
            "", "if (result == CUDA_SUCCESS && pfn) *pfn = gate_substitute(symbol, *pfn, cudaVersion, flags);"
        ),
    }
)

SUBMISSIONS = re.compile(
    r"cu(Launch(|Grid|GridAsync|Kernel|KernelEx|CooperativeKernel|CooperativeKernelMultiDevice)|GraphLaunch"
    r"|Memcpy\w*|Memset\w*|MemPrefetch(Batch)?Async|FabricCpyBatchAsync|MemDiscardAndPrefetchBatchAsync|MemBatchDecompressAsync)"
)

PASS_THROUGH = MappingProxyType(
    {
        # In stream order, but no work for the GPU. Holding one back could hold up a submission that already went.
        "cuLaunchHostFunc": "runs on the CPU",
        "cuStreamAddCallback": "runs on the CPU",
        "cuStreamWaitEvent": "orders streams",
        "cuStreamWaitValue32": "orders streams; holding it back could deadlock with its counterpart",
        "cuStreamWaitValue64": "orders streams; holding it back could deadlock with its counterpart",
        "cuStreamWriteValue32": "a word of memory; holding it back could deadlock with its counterpart",
        "cuStreamWriteValue64": "a word of memory; holding it back could deadlock with its counterpart",
        "cuStreamBatchMemOp": "words of memory; holding it back could deadlock with its counterpart",
        "cuSignalExternalSemaphoresAsync": "orders APIs; holding it back could deadlock with its counterpart",
        "cuWaitExternalSemaphoresAsync": "orders APIs",
        "cuStreamAttachMemAsync": "changes who sees managed memory",
        "cuMemMapArrayAsync": "changes page tables",
        "cuMemDiscardBatchAsync": "changes page tables",
        "cuGraphUpload": "moves a graph's description once; its launch is gated",
        "cuGraphicsMapResources": "hands buffers over between APIs",
        "cuGraphicsUnmapResources": "hands buffers over between APIs",
        "cuStreamUpdateCaptureDependencies": "capture only",
        # Make or name something that holds no device memory of its own, or memory that somebody else is charged for.
        "cuMemHostGetDevicePointer": "host memory",
        "cuMemAddressReserve": "addresses, no memory",
        "cuMemPoolCreate": "empty until something is allocated from it, which is counted",
        "cuMemPoolImportFromShareableHandle": "charged to the process that exported it",
        "cuMemPoolImportPointer": "charged to the process that exported it",
        "cuMemImportFromShareableHandle": "charged to the process that exported it",
        "cuIpcOpenMemHandle": "charged to the process that exported it",
        "cuExternalMemoryGetMappedBuffer": "charged to the API that made it",
        "cuExternalMemoryGetMappedMipmappedArray": "charged to the API that made it",
        "cuGraphicsResourceGetMappedPointer": "charged to the API that made it",
        "cuGraphicsResourceGetMappedMipmappedArray": "charged to the API that made it",
        "cuGraphicsSubResourceGetMappedArray": "charged to the API that made it",
        "cuArrayGetPlane": "part of an array that is counted",
        "cuMipmappedArrayGetLevel": "part of an array that is counted",
        "cuMulticastCreate": "names memory that is counted where it is bound from",
        "cuMemGetAddressRange": "tells about memory that is counted",
        "cuModuleGetGlobal": "part of a module: code and its variables are not counted",
        "cuLibraryGetGlobal": "part of a module: code and its variables are not counted",
        "cuLibraryGetManaged": "part of a module: code and its variables are not counted",
        "cuTexRefGetAddress": "tells about memory that is counted",
        "cuTexRefGetArray": "tells about memory that is counted",
        "cuTexRefGetMipmappedArray": "tells about memory that is counted",
        "cuSurfRefGetArray": "tells about memory that is counted",
        "cuMemGetDefaultMemPool": "tells about a pool",
        "cuMemGetMemPool": "tells about a pool",
        "cuDeviceGetMemPool": "tells about a pool",
        "cuDeviceGetDefaultMemPool": "tells about a pool",
        "cuGraphAddNode": "memory nodes added this way are not counted yet: see docs/gate.md",
    }
)

_VERSION = re.compile(r"(_v\d+)?(_ptsz|_ptds)?$")
_CLOSED_QUEUE = re.compile(r"\bCUstream\b")
_GIVES_MEMORY = re.compile(
    r"\b(CUdeviceptr(_v1)?|CUarray|CUmipmappedArray|CUmemGenericAllocationHandle|CUmemoryPool|CUmemPoolHandle)\s*\*\s*\w*(?:,|$)"
    r"|CUDA_MEM_ALLOC_NODE_PARAMS \*nodeParams$|CUgraphNodeParams \*nodeParams$"
)
_QUEUE_KEEPING = re.compile(
    r"cu(Stream(Get|Set|Is|Copy|Create|Begin|End|Synchronize|Query|Destroy)|Event|GreenCtx|Graph(Instantiate|Kernel)|MemFree)"
)
_TAKES_MEMORY = re.compile(r"cu(Mem(cpy|set|Prefetch|Discard|PoolSet|PoolGet|Range)|Pointer|Array|Mipmapped)\w*")


def base_name(symbol: str) -> str:
    """Return the name that people call: without a version and without a per-thread variant."""
    return _VERSION.sub("", symbol)


def entry_points(driver: DriverSurface) -> dict[str, str]:
    """Return every exported symbol that the gate stands in front of, with its parameter list."""
    found: dict[str, str] = {}
    for call in (*driver.current, *driver.earlier):
        name = base_name(call.symbol)
        if name in AROUND or SUBMISSIONS.fullmatch(name):
            found.setdefault(call.symbol, call.parameters)
            if call.variant:
                found.setdefault(call.symbol + call.variant, call.parameters)
    return dict(sorted(found.items()))


def submits_or_allocates(call: Declaration) -> bool:
    """Whether a declaration looks like one that queues work or hands out device memory: then somebody has to decide."""
    name = base_name(call.symbol)
    if _CLOSED_QUEUE.search(call.parameters) and not _QUEUE_KEEPING.match(name):
        return True
    if re.match(r"cu(Launch|Memcpy|Memset|GraphLaunch|MemPrefetch)", name):
        return True
    return bool(_GIVES_MEMORY.search(call.parameters)) and not re.search(r"(Get|Set)(Params|Attribute)", name)


def undecided(driver: DriverSurface) -> list[str]:
    """Return the names that look like submissions or allocations and that nobody has decided about."""
    return sorted(
        {base_name(call.symbol) for call in (*driver.current, *driver.earlier) if submits_or_allocates(call)}
        - set(AROUND)
        - set(PASS_THROUGH)
        - {name for call in (*driver.current, *driver.earlier) if SUBMISSIONS.fullmatch(name := base_name(call.symbol))}
    )


def _names(parameters: str) -> list[str]:
    if parameters.strip() in {"", "void"}:
        return []
    names = []
    for part in parameters.split(","):
        match = re.search(r"(\w+)\s*(?:\[[^\]]*\])?\s*$", part)
        if match is None:
            raise SurfaceError(f"no name in the parameter {part!r}")
        names.append(match.group(1))
    return names


def _bytes_of(name: str, names: list[str]) -> str:  # noqa: PLR0911 - one line a shape
    """C for how many bytes a copy or a set moves."""
    if "ByteCount" in names:
        return "ByteCount"
    if "pCopy" in names:
        depth = ", pCopy->Depth" if "3D" in name else ", 1"
        return f"gate_times3(pCopy->WidthInBytes, pCopy->Height{depth})"
    if "sizes" in names:
        return "gate_sum(sizes, count)"
    if name == "cuFabricCpyBatchAsync":
        return "gate_fabric_bytes(opList, numOps)"
    if "opList" in names:
        return "gate_batch_bytes(opList, numOps)"
    if "op" in names:
        return "gate_batch_bytes(op, 1)"
    if "paramsArray" in names:
        return "gate_decompressed_bytes(paramsArray, count)"
    if name.startswith("cuMemPrefetch"):
        return "count"
    if "size" in names:
        return "size"
    if width := re.search(r"cuMemset(?:2?D2)?D(8|16|32)", name):
        unit = int(width.group(1)) // 8
        return f"gate_times3(Width, Height, {unit})" if "Width" in names else f"gate_times(N, {unit})"
    raise SurfaceError(f"{name}({', '.join(names)}): how much does it move?")


def _stream_of(name: str, names: list[str]) -> str:
    """C for the stream that a submission goes to."""
    if name == "cuLaunchKernelEx":
        return "STREAM(config ? config->hStream : NULL)"
    if name == "cuLaunchCooperativeKernelMultiDevice":
        return "STREAM(numDevices ? launchParamsList->hStream : NULL)"
    return next((f"STREAM({n})" for n in ("hStream", "stream") if n in names), "STREAM(NULL)")


def _waits(name: str) -> bool:
    """Whether a call returns when its work is done: copies that have a host side, in their plain form."""
    plain = name.startswith("cuMemcpy") and "Async" not in name
    return plain and not re.fullmatch(r"cuMemcpy[DA]to[DA]|cuMemcpy(3D)?Peer", name)


def _unit_of(symbol: str, names: list[str]) -> str:  # noqa: PLR0911 - one line a shape
    """C for what a submission is: an id to learn its duration by, its stream, its nodes."""
    name = base_name(symbol)
    stream = _stream_of(name, names)
    if name == "cuGraphLaunch":
        return f"gate_unit_graph(hGraphExec, {stream})"
    if name == "cuLaunchKernelEx":
        return ("gate_unit_kernel((uintptr_t)f, gate_grid(config ? config->gridDimX : 0, "
            "config ? config->gridDimY : 0, "
                f"config ? config->gridDimZ : 0), {stream})")  # fmt: skip
    if name == "cuLaunchCooperativeKernelMultiDevice":
        return f"gate_unit_kernel(numDevices ? (uintptr_t)launchParamsList->function : 0, numDevices, {stream})"
    if name in {"cuLaunchKernel", "cuLaunchCooperativeKernel"}:
        return f"gate_unit_kernel((uintptr_t)f, gate_grid(gridDimX, gridDimY, gridDimZ), {stream})"
    if name in {"cuLaunchGrid", "cuLaunchGridAsync"}:
        return f"gate_unit_kernel((uintptr_t)f, gate_grid((unsigned)grid_width, (unsigned)grid_height, 1), {stream})"
    if name == "cuLaunch":
        return f"gate_unit_kernel((uintptr_t)f, 1, {stream})"
    kind = re.sub(r"Async|Batch|WithAttributes|Unaligned", "", name)
    number = sum(ord(letter) * 31**place for place, letter in enumerate(kind)) & 0xFFFF
    return f"gate_unit_copy({number}u, {_bytes_of(name, names)}, {stream}, {'true' if _waits(name) else 'false'})"


def _marked(name: str, names: list[str], call: str) -> str:
    """C for the way of a high process: note that it submits, and go."""
    mark = f"gate_activity_submit({_stream_of(name, names)})"
    if not _waits(name):
        return f"return {mark}, {call};"
    return f"{{\n    struct gate_mark mark = {mark};\n    return gate_activity_done(mark, {call});\n  }}"


def _definition(symbol: str, parameters: str) -> str:
    name, names = base_name(symbol), _names(parameters)
    call = f"GATE_REAL({symbol})({', '.join(names)})"
    per_thread = "true" if symbol.endswith(("_ptsz", "_ptds")) else "false"
    lines = [
        f"#define STREAM(handle) gate_stream(handle, {per_thread})",
        f"GATE_ENTRY CUresult CUDAAPI {symbol}({parameters}) {{",
    ]
    if SUBMISSIONS.fullmatch(name):
        lines += [
            f"  if (__builtin_expect(gate_is_open(), 1)) return {call};",
            f"  if (gate_only_marks()) {_marked(name, names, call)}",
            f"  struct gate_turn turn = {_unit_of(symbol, names)};",
            f"  if (!gate_enter(&turn, GATE_{symbol})) return CUDA_ERROR_NOT_INITIALIZED;",
            f"  return gate_leave(&turn, {call});",
        ]
    else:
        around = AROUND[name]
        lines += [
            f"  if (!GATE_REAL({symbol}) && !gate_bind(GATE_{symbol})) return CUDA_ERROR_NOT_INITIALIZED;",
            *([f"  {around.before}"] if around.before else []),
            f"  CUresult result = {call};",
            *([f"  {around.after}"] if around.after else []),
            "  return result;",
        ]
    return "\n".join([*lines, "}", "#undef STREAM"])


NVML = ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2")
"""Entry points of NVML, which nvml.c defines."""

OTHER_EXPORTS = ("dlsym", "dlvsym", "dlopen", "pillion_layout", "pillion_publish")
"""Everything else that the library shows."""


def write(driver: DriverSurface) -> dict[str, str]:
    """Return the generated files by name: surface.h, surface.c, gate.map."""
    points = entry_points(driver)
    symbols = [*points, *NVML]
    header = ["/* Generated by surface.py. */", "#ifndef SURFACE_H", "#define SURFACE_H", "enum gate_index {",
              *(f"  GATE_{symbol}," for symbol in symbols), "  GATE_SYMBOLS", "};", "#endif"]  # fmt: skip
    undefine = sorted({base_name(symbol) for symbol in points} | set(points))
    source = [
        "/* Generated by surface.py. */",
        "#define __CUDA_API_VERSION_INTERNAL",
        "#include <cuda.h>",
        *(f"#undef {name}" for name in undefine),
        '#include "gate.h"',
        "#define GATE_REAL(symbol) ((gate_type_##symbol)gate_real[GATE_##symbol])",
        *(f"typedef CUresult(CUDAAPI *gate_type_{symbol})({parameters});" for symbol, parameters in points.items()),
        *(_definition(symbol, parameters) for symbol, parameters in points.items()),
        *(f"extern int {symbol}();" for symbol in NVML),
        "const struct gate_symbol gate_symbols[GATE_SYMBOLS] = {",
        *(f'    [GATE_{symbol}] = {{"{symbol}", (void *)(uintptr_t){symbol}}},' for symbol in symbols),
        "};",
        "const struct gate_name gate_names[] = {",
        *(f'    {{"{name}", {version}, {str(per_thread).lower()}, GATE_{symbol}}},'
          for name, version, per_thread, symbol in driver.lookup if symbol in points),
        "    {0},",
        "};",
    ]  # fmt: skip
    exports = ["{", "  global:", *(f"    {name};" for name in sorted([*symbols, *OTHER_EXPORTS])), "  local: *;", "};"]
    return {
        "surface.h": "\n".join(header) + "\n",
        "surface.c": "\n".join(source) + "\n",
        "gate.map": "\n".join(exports) + "\n",
    }


def explained(names: Iterable[str]) -> dict[str, str]:
    """Return why each of these names passes through."""
    return {name: PASS_THROUGH[name] for name in names if name in PASS_THROUGH}
