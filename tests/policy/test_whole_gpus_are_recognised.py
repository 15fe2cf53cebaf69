"""Which extended resources stand for a GPU, or a slice of one, that a container has to itself."""

import pytest

from pillion.policy import is_whole_gpu


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpu",
        "amd.com/gpu",
        "NVIDIA.com/GPU",
        "nvidia.com/pgpu",
        "nvidia.com/mig-1g.10gb",
        "gpu.intel.com/i915",
    ],
)
def test_a_whole_gpu_or_a_fixed_slice(resource):
    assert is_whole_gpu(resource)


@pytest.mark.parametrize(
    "resource",
    [
        "cpu",
        "memory",
        "nvidia.com/gpu.shared",
        "nvidia.com/gpumem",
        "nvidia.com/gpucores",
        "gpu",
        "nvidia.com/gpu\n",
        "example.com/tpu",
    ],
)
def test_anything_else(resource):
    assert not is_whole_gpu(resource)
