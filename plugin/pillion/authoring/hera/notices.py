"""Warnings at the author's own line."""

from __future__ import annotations

import sys
import warnings

from pillion.policy import PolicyWarning


def warn(message: str) -> None:
    """Warn where the author called Hera: at the nearest line that is neither Hera's nor ours."""
    level, frame = 1, sys._getframe()  # noqa: SLF001 - the only way to see the caller's caller
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("hera", "pillion"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, PolicyWarning, stacklevel=level)
