"""Compiles the emulated GPU's libraries. Used by the package build (hatch_build.py); also a command for working on them.

The compiler is Zig's, from its wheel, aimed at glibc 2.17; the headers are NVIDIA's, from theirs. `PILLION_SANITIZE` set to
`address` or `undefined` builds with the machine's own `cc` and that sanitizer instead: the compiler's wheel has no runtime
for them.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
EMULATOR = HERE / "emulator"
OUTPUT = HERE / "pillion_node" / "lib" / "emulated"
MACHINES = {"x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
COMMON = (
    "-std=c11",
    "-D_GNU_SOURCE",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fPIC",
    "-g0",
    "-D__CUDA_API_PUSH_VISIBILITY_DEFAULT",
)
LIBRARIES = {
    "libcuda.so.1": ("model", "machine", "driver"),
    "libnvidia-ml.so.1": ("model", "machine", "nvml"),
    "libpillion-emulator.so": ("model", "machine", "tool"),
}
GENERATED = {
    "libcuda.so.1": ("not_modelled.c", "per_thread.c", "symbols.c", "errors.c"),
    "libnvidia-ml.so.1": ("nvml_not_modelled.c",),
    "libpillion-emulator.so": (),
}


def _header(distribution: str, name: str) -> Path:
    for file in importlib.metadata.files(distribution) or ():
        if file.name == name:
            return Path(str(file.locate()))
    raise FileNotFoundError(f"{distribution} ships no {name}: it is needed to build the emulated GPU")


def _symbols() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pillion_native_symbols", HERE / "native_symbols.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(HERE / "native_symbols.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _generate(folder: Path) -> None:
    symbols = _symbols()
    cuda_h = _header("nvidia-cuda-runtime", "cuda.h").read_text()
    driver = symbols.read_driver(cuda_h, _header("nvidia-cuda-runtime", "cudaTypedefs.h").read_text())
    defined = symbols.defined_symbols(sorted((EMULATOR / "driver").glob("*.c")), driver, cuda_h)
    nvml_h = _header("nvidia-nvml-dev", "nvml.h").read_text()
    files = symbols.write_driver(driver, defined)
    files |= symbols.write_nvml(nvml_h, sorted((EMULATOR / "nvml").glob("*.c")))
    for name, text in files.items():
        (folder / name).write_text(text)


def _compiler(machine: str, sanitizer: str) -> list[str]:
    if sanitizer:
        frame = ["-O1", "-fno-omit-frame-pointer", f"-fsanitize={sanitizer}"]
        return ["cc", *frame, *(["-fno-sanitize-recover=all"] if sanitizer == "undefined" else [])]
    return [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.2.17", "-O2", "-fno-sanitize=all"]


def compile_libraries(output: Path = OUTPUT, *, machine: str | None = None, sanitizer: str | None = None) -> list[Path]:
    """Build the three libraries into `output`.

    Args:
        output: The folder to put them in; made if need be.
        machine: The machine to build for, as `platform.machine()` names it; this one if not given.
        sanitizer: `address` or `undefined`; PILLION_SANITIZE if not given.

    Returns:
        The paths of the libraries.

    Raises:
        subprocess.CalledProcessError: The compiler refused; its words are on standard error.
    """
    target = MACHINES[machine or platform.machine()]
    command = _compiler(target, os.environ.get("PILLION_SANITIZE", "") if sanitizer is None else sanitizer)
    headers = {_header("nvidia-cuda-runtime", "cuda.h").parent, _header("nvidia-nvml-dev", "nvml.h").parent}
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _generate(work)
        include = [f"-I{EMULATOR}", *(f"-isystem{header}" for header in sorted(headers))]

        def build(source: Path, *flags: str) -> Path:
            made = work / f"{source.parent.name}-{source.stem}{''.join(flags)}.o"
            subprocess.run([*command, *COMMON, *flags, *include, "-c", str(source), "-o", str(made)], check=True)
            return made

        jobs: list[tuple[Path, str]] = []
        for library, folders in LIBRARIES.items():
            # The tool's library is there for its symbols; the others show only what NVIDIA's do.
            visibility = "-fvisibility=default" if library == "libpillion-emulator.so" else "-fvisibility=hidden"
            sources = [source for name in folders for source in sorted((EMULATOR / name).glob("*.c"))]
            jobs += [(source, visibility) for source in [*sources, *(work / name for name in GENERATED[library])]]
        unique = list(dict.fromkeys(jobs))
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            objects = dict(zip(unique, pool.map(lambda job: build(*job), unique), strict=True))
        made = []
        for library, folders in LIBRARIES.items():
            visibility = "-fvisibility=default" if library == "libpillion-emulator.so" else "-fvisibility=hidden"
            sources = [source for name in folders for source in sorted((EMULATOR / name).glob("*.c"))]
            parts = [
                str(objects[source, visibility]) for source in [*sources, *(work / name for name in GENERATED[library])]
            ]
            fresh = work / library
            link = ["-shared", f"-Wl,-soname,{library}", "-Wl,-z,defs", "-Wl,-z,now", "-lpthread"]
            subprocess.run([*command, *parts, *(link if "-O2" in command else [x for x in link if x != "-Wl,-z,defs"]),
                            "-o", str(fresh)], check=True)  # fmt: skip
            made.append(_replace(fresh, output / library))
    return made


def _replace(fresh: Path, library: Path) -> Path:
    """Put a library in place by renaming, so that a process that has the old one mapped keeps it whole."""
    arriving = library.with_name(f".{library.name}.new")
    arriving.write_bytes(fresh.read_bytes())
    arriving.chmod(0o755)
    arriving.replace(library)
    return library


if __name__ == "__main__":
    for path in compile_libraries(Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT):
        print(path)  # noqa: T201
