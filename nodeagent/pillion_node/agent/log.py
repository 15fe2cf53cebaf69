"""Structured logs: one JSON object a line, on standard error."""

from __future__ import annotations

import json
import os
import sys
import time


class Log:
    """Writes events. A full disk or a reader that left costs lines, never the agent."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = sys.stderr.fileno() if descriptor is None else descriptor
        self.lost = 0

    def __call__(self, event: str, **facts: object) -> None:
        """Write one event with its facts; the time is the wall clock's, for people."""
        line = json.dumps({"time": round(time.time(), 3), "event": event, **facts}, default=str)
        try:
            os.write(self._descriptor, f"{line}\n".encode())
        except OSError:
            self.lost += 1
