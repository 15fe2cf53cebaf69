"""Lets an adapter watch its framework from the moment it is imported, without being the one who imports it.

An author may tag functions, or open a block of defaults, before KFP or Hera is imported; and a step's image may have
neither. So nothing is imported here: a finder that finds nothing itself sees who is being imported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

# framework -> what to call then, as (adapter, function); a dict for its order and because no call is wanted twice
_waiting: dict[str, dict[tuple[str, str], None]] = {}


def call_when_imported(framework: str, adapter: str, function: str) -> None:
    """Call `adapter.function()` now if `framework` is imported, otherwise as soon as it has been.

    Args:
        framework: A top-level package.
        adapter: The module that has the function; it is imported for the call.
        function: The function's name.
    """
    if framework in sys.modules:
        getattr(import_module(adapter), function)()
        return
    _waiting.setdefault(framework, {})[adapter, function] = None
    if _observer not in sys.meta_path:
        sys.meta_path.insert(0, _observer)


class _Observer:
    """Has the other finders find a module that is waited for, and makes its loader tell when it is done."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _waiting:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                _tell_when_executed(spec)
                return spec
        return None


def _tell_when_executed(spec: ModuleSpec) -> None:
    loader = spec.loader
    assert loader is not None  # noqa: S101 - for the type checker
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        # Some loaders, such as zip files', serve many modules.
        if module.__name__ == spec.name:
            for adapter, function in _waiting.pop(spec.name, {}):
                getattr(import_module(adapter), function)()

    loader.exec_module = exec_module  # type: ignore[method-assign]


_observer = _Observer()
