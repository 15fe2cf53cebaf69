"""What a container may ask for that contradicts sharing a GPU."""

from __future__ import annotations

import re

# Extended resources that stand for a whole GPU, or for a fixed slice of one, whoever makes it.
_WHOLE_GPU = re.compile(r"([a-z0-9.-]+/(gpu|pgpu)|nvidia\.com/mig-.+|gpu\.intel\.com/.+)", re.ASCII | re.IGNORECASE)


def is_whole_gpu(resource: str) -> bool:
    """Whether a resource, such as `nvidia.com/gpu`, gives a container a GPU, or a slice of one, to itself."""
    return bool(_WHOLE_GPU.fullmatch(resource))
