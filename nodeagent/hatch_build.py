"""Builds the gate and the emulated GPU into the package, for wheels and for editable installs alike."""

from __future__ import annotations

import importlib.util
import platform
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def _load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class NativeBuildHook(BuildHookInterface[Any]):
    """Compiles before the files are collected, and says for which machine the wheel is."""

    PLUGIN_NAME = "native"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Hatchling's entry point. On anything but Linux there is no driver to stand before or in for."""
        del version
        if self.target_name != "wheel" or sys.platform != "linux":
            return
        native = _load("pillion_native", Path(self.root) / "native.py")
        native.compile_libraries()
        _load("pillion_gate_compile", Path(self.root) / "gate" / "compile.py").compile_gate()
        build_data["artifacts"] += ["pillion_node/lib/*.so", "pillion_node/lib/emulated/*"]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_17_{native.MACHINES[platform.machine()]}"
