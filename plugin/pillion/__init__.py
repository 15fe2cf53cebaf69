"""Pillion: nice(1) for GPUs, in your pipeline.

Tag a step with `@gpu_share(...)` and `@priority(...)`; `defaults(...)` says it for a whole pipeline. Nothing else is
public here. Importing this package loads the standard library only, so it also works inside a step's image.
"""

from pillion._version import __version__
from pillion.authoring.decorators import defaults, gpu_share, priority
from pillion.policy.problems import PolicyError

__all__ = ["PolicyError", "__version__", "defaults", "gpu_share", "priority"]
