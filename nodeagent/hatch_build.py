"""Builds the emulated GPU's libraries into the package, for wheels and for editable installs alike."""

from __future__ import annotations

import importlib.util
import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeBuildHook(BuildHookInterface[Any]):
    """Compiles before the files are collected, and says for which machine the wheel is."""

    PLUGIN_NAME = "native"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Hatchling's entry point. On anything but Linux there is nothing to stand in for, so nothing is built."""
        del version
        if self.target_name != "wheel" or sys.platform != "linux":
            return
        spec = importlib.util.spec_from_file_location("pillion_native", Path(self.root) / "native.py")
        if spec is None or spec.loader is None:
            raise FileNotFoundError(Path(self.root) / "native.py")
        native = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = native
        spec.loader.exec_module(native)
        native.compile_libraries()
        build_data["artifacts"].append("pillion_node/lib/emulated/*")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_17_{native.MACHINES[platform.machine()]}"
