"""Admission and the virtual world, compiled once: as it ships, and with undefined behaviour trapped."""

import ctypes
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))

from admission import world
from admission.decision import Admit, Lease

MS = 1_000_000
SANITIZED = ("-O1", "-g", "-fsanitize=undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="session", params=["optimised", "undefined behaviour trapped"])
def lib(request, tmp_path_factory) -> ctypes.CDLL:
    options = () if request.param == "optimised" else SANITIZED
    return world.load(world.build(tmp_path_factory.mktemp("admission"), *options))


@pytest.fixture(scope="session")
def world_lib(tmp_path_factory) -> ctypes.CDLL:
    """For what runs for long; test_memory_is_left_alone runs worlds under the sanitizers."""
    return world.load(world.build(tmp_path_factory.mktemp("worlds")))


@pytest.fixture
def tenant(lib):
    """A function that makes a tenant with the lease and one idle high step beside it, at time 0."""

    def make(high: bool = True, lease: Lease = Lease.RUN, **terms: int) -> Admit:
        admit = Admit(lib)
        defaults = {
            "max_slowdown_ppm": 10_000, "budget_ppm": 1_000_000, "max_stall_ns": 10 * MS, "bucket_ns": 300 * MS,
            "switch_ns": 50_000, "slice_ns": 2 * MS,
        }  # fmt: skip
        admit.set_terms(0, **(defaults | terms))
        admit.set_lease(0, lease)
        if high:
            admit.high_present(0)
        return admit

    return make
