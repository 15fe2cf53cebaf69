"""Compiles the gate. Used by the package build; also a command for working on it.

The compiler is Zig's, from its wheel, aimed at glibc 2.17, or the machine's own `cc` where that is asked for; the
headers are NVIDIA's, from their wheels.
"""  # noqa: INP001 - a script beside its C

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAME = "libpillion-gate.so"
OUTPUT = HERE.parent / "pillion_node" / "lib" / NAME
MACHINES = {"x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g0", "-fPIC", "-fvisibility=hidden",
         "-ftls-model=initial-exec", "-fno-math-errno")  # fmt: skip

EARLY = ("lookup.c", "loaded.c", "driver.c")
"""What may run before a sanitizer's runtime does, which itself asks for symbols: never instrumented."""

sys.path[:0] = [str(HERE), str(HERE.parent)]
import surface  # noqa: E402

import native_symbols  # noqa: E402


def header(distribution: str, name: str) -> Path:
    """Return the path of a header that a wheel brought.

    Raises:
        FileNotFoundError: The wheel is installed, but ships no such header.
        importlib.metadata.PackageNotFoundError: The wheel is not installed.
    """
    for file in importlib.metadata.files(distribution) or ():
        if file.name == name:
            return Path(str(file.locate()))
    raise FileNotFoundError(f"{distribution} ships no {name}: it is needed to build the gate")


def read_surface() -> native_symbols.Driver:
    """Return what the installed headers declare."""
    return native_symbols.read_driver(
        header("nvidia-cuda-runtime", "cuda.h").read_text(), header("nvidia-cuda-runtime", "cudaTypedefs.h").read_text()
    )


def compile_gate(
    output: Path = OUTPUT,
    *,
    machine: str | None = None,
    compiler: Sequence[str] | None = None,
    flags: Sequence[str] = (),
) -> Path:
    """Build the gate into `output`.

    Args:
        output: The library's path; its folder is made if need be.
        machine: The machine to build for, as `platform.machine()` names it; this one if not given.
        compiler: Another compiler than Zig's, for instance ("cc",).
        flags: Flags to add, for instance ("-fsanitize=thread",).

    Returns:
        `output`.

    Raises:
        subprocess.CalledProcessError: The compiler refused; its words are on standard error.
    """
    target = f"{MACHINES[machine or platform.machine()]}-linux-gnu.2.17"
    command = [*(compiler or (sys.executable, "-m", "ziglang", "cc", "-target", target, "-fno-sanitize=all")), "-O2"]
    headers = {header("nvidia-cuda-runtime", "cuda.h").parent, header("nvidia-nvml-dev", "nvml.h").parent}
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name, text in surface.write(read_surface()).items():
            (work / name).write_text(text)
        include = [f"-I{HERE}", f"-I{work}", *(f"-isystem{path}" for path in sorted(headers))]

        def build(source: Path) -> Path:
            made = work / f"{source.stem}.o"
            extra = [flag for flag in flags if source.name not in EARLY or not flag.startswith("-fsanitize")]
            subprocess.run([*command, *FLAGS, *extra, *include, "-c", str(source), "-o", str(made)], check=True)  # noqa: S603
            return made

        with ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(build, [*sorted(HERE.glob("*.c")), work / "surface.c"]))
        fresh = output.with_name(f".{output.name}.new")
        link = [
            "-shared",
            f"-Wl,-soname,{NAME}",
            f"-Wl,--version-script={work / 'gate.map'}",
            "-Wl,-z,now",
            "-lpthread",
        ]
        subprocess.run([*command, *flags, *map(str, objects), *link, "-ldl", "-o", str(fresh)], check=True)  # noqa: S603
        fresh.replace(output)  # a process that has the old one mapped keeps it whole
    return output


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", nargs="?", type=Path, default=OUTPUT)
    parser.add_argument("--machine", choices=sorted(MACHINES))
    parser.add_argument("--cc", help="this compiler instead of Zig's")
    given = parser.parse_args()
    print(compile_gate(given.output, machine=given.machine, compiler=given.cc and (given.cc,)))
