"""Admission and the world under AddressSanitizer: in a process of its own, which the sanitizer's library has to enter first."""

import subprocess
import sys

import pytest

from admission import world

SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from admission import world
lib = world.load(Path(sys.argv[2]))
units = tuple(world.Unit(1 + 7_919 * k % 3_000_000, id=k, nodes=1 + k % 3) for k in range(2000))
for tenants in (1, 16):
    for bound in (0.001, 0.5):
        for pause_ns in (1, 50_000, 3_000_000):
            world.run(lib, world.World((400_000, 5_000_000), (pause_ns,), units, 500_000_000, tenants=tenants, max_slowdown=bound))
print("done")
"""


def test_no_access_outside_what_the_caller_gave(tmp_path):
    try:
        library = world.build(tmp_path, "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    except subprocess.CalledProcessError:
        pytest.skip("this compiler has no AddressSanitizer")
    runtime = subprocess.run(
        [*world.compiler(), "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    )
    preload = runtime.stdout.strip()
    if "/" not in preload:
        pytest.skip("this compiler has no shared AddressSanitizer library")
    command = [sys.executable, "-c", SCRIPT, str(world.ROOT / "bench"), str(library)]
    environment = {"LD_PRELOAD": preload, "ASAN_OPTIONS": "detect_leaks=0", "PATH": "/usr/bin:/bin"}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (finished.stdout, finished.returncode) == ("done\n", 0), finished.stderr
