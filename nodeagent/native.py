"""Compiles the emulated GPU's libraries, for the package build (hatch_build.py) and for working on them.

The compiler is Zig's, from its wheel, aimed at glibc 2.17; the headers are NVIDIA's, from theirs. With PILLION_SANITIZE
set to `address` or `undefined` it is the machine's own `cc` with that sanitizer: Zig's wheel has no runtime for it.

    python native.py [FOLDER]
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
EMULATOR = HERE / "emulator"
OUTPUT = HERE / "pillion_node" / "lib" / "emulated"
MACHINES = {"x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
SANITIZERS = ("address", "undefined")
COMMON = ("-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fPIC", "-D__CUDA_API_PUSH_VISIBILITY_DEFAULT")


@dataclass(frozen=True)
class Library:
    """One library: the folders of its sources, the generated sources, and whether it shows all of its symbols."""

    name: str
    folders: tuple[str, ...]
    generated: tuple[str, ...] = ()
    shows_all: bool = False

    def sources(self, generated: Path) -> Iterator[Path]:
        """Every source, in an order that does not depend on the file system."""
        for folder in self.folders:
            yield from sorted((EMULATOR / folder).glob("*.c"))
        for name in self.generated:
            yield generated / name


LIBRARIES = (
    Library(
        "libcuda.so.1", ("model", "machine", "driver"), ("not_modelled.c", "per_thread.c", "symbols.c", "errors.c")
    ),
    Library("libnvidia-ml.so.1", ("model", "machine", "nvml"), ("nvml_not_modelled.c",)),
    Library("libpillion-emulator.so", ("model", "machine", "tool"), shows_all=True),
)


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


def _compiler(machine: str, sanitizer: str) -> tuple[list[str], list[str]]:
    """The command that compiles and links, and what linking needs besides."""
    if sanitizer:
        if sanitizer not in SANITIZERS:
            raise ValueError(f"PILLION_SANITIZE={sanitizer} is not one of {', '.join(SANITIZERS)}")
        return ["cc", "-O1", "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"], []
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.2.17"]
    return [*zig, "-O2", "-g0", "-fno-sanitize=all"], ["-Wl,-z,defs", "-s"]


def compile_libraries(output: Path = OUTPUT, *, machine: str | None = None, sanitizer: str | None = None) -> list[Path]:
    """Build the libraries into a folder.

    Args:
        output: The folder; made if need be.
        machine: The machine to build for, as `platform.machine()` names it; this one if not given.
        sanitizer: `address` or `undefined`, or empty for none; PILLION_SANITIZE if not given.

    Returns:
        The paths of the libraries.

    Raises:
        ValueError: No such sanitizer.
        subprocess.CalledProcessError: The compiler refused; its words are on standard error.
    """
    wanted = os.environ.get("PILLION_SANITIZE", "") if sanitizer is None else sanitizer
    command, linking = _compiler(MACHINES[machine or platform.machine()], wanted)
    headers = sorted({_header("nvidia-cuda-runtime", "cuda.h").parent, _header("nvidia-nvml-dev", "nvml.h").parent})
    include = [f"-I{EMULATOR}", *(f"-isystem{header}" for header in headers)]
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _generate(work)

        def build(job: tuple[Path, str]) -> str:
            source, visibility = job
            made = work / f"{source.parent.name}-{source.stem}-{visibility}.o"
            flags = [*COMMON, f"-fvisibility={visibility}", *include]
            subprocess.run([*command, *flags, "-c", str(source), "-o", str(made)], check=True)  # noqa: S603
            return str(made)

        jobs = {
            library: [(source, "default" if library.shows_all else "hidden") for source in library.sources(work)]
            for library in LIBRARIES
        }
        each = list(dict.fromkeys(job for needed in jobs.values() for job in needed))
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            objects = dict(zip(each, pool.map(build, each), strict=True))
        for library, needed in jobs.items():
            parts = [objects[job] for job in needed]
            link = ["-shared", f"-Wl,-soname,{library.name}", "-Wl,-z,now", *linking, "-lpthread"]
            made = work / library.name
            subprocess.run([*command, *parts, *link, "-o", str(made)], check=True)  # noqa: S603
            _put_in_place(made, output / library.name)
    return [output / library.name for library in LIBRARIES]


def _put_in_place(fresh: Path, library: Path) -> None:
    """By renaming, so that a process that has the old one mapped keeps it whole."""
    arriving = library.with_name(f".{library.name}.new")
    arriving.write_bytes(fresh.read_bytes())
    arriving.chmod(0o755)
    arriving.replace(library)


if __name__ == "__main__":
    for path in compile_libraries(Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT):
        sys.stdout.write(f"{path}\n")
