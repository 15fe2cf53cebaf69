"""Python files that define pipelines: running one, finding its pipelines, compiling them with their own SDK.

A program is the author's own and is run as such; what it prints goes to stderr, so that stdout holds only the spec.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from pillion.authoring.findings import Finding, ManifestError, Position
from pillion.policy import PolicyError, PolicyWarning, Problem


@dataclass(frozen=True)
class Pipeline:
    """One pipeline, component or workflow that a program defines, not yet compiled."""

    name: str
    sdk: str
    compile: Callable[[], str]


def pipelines(path: Path) -> dict[str, Pipeline]:
    """Run a Python file and return what it defines that can be submitted, by variable name.

    Raises:
        ManifestError: The file fails, or defines nothing that can be submitted.
        OSError: It cannot be read.
    """
    module = _run(path)
    found = {}
    for sdk, find, compile_ in (
        ("kfp", "pipelines_in", "compile_pipeline"),
        ("hera", "workflows_in", "compile_workflow"),
    ):
        if sdk not in sys.modules:
            continue
        adapter = import_module(f"pillion.authoring.{sdk}")
        for name, value in getattr(adapter, find)(vars(module)).items():
            found[name] = Pipeline(name, sdk, _compiling(path, getattr(adapter, compile_), value))
    if not found:
        problem = Problem(
            "no-pipeline", "the file defines no pipeline", "a KFP pipeline or a Hera workflow as a module variable",
            "define it at module level, outside functions",
        )  # fmt: skip
        raise ManifestError([Finding(str(path), Position(1, 1), problem)])
    return found


def _compiling(path: Path, compile_: Callable[[object], str], value: object) -> Callable[[], str]:
    def run() -> str:
        with _attributed(path):
            return compile_(value)

    return run


def _run(path: Path) -> types.ModuleType:
    # Hera writes a function's module into the spec, so the module gets the name under which it would be imported.
    name = path.stem if path.stem not in sys.modules and path.stem not in sys.stdlib_module_names else f"_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ManifestError(
            [Finding(str(path), None, Problem("not-a-program", "the file is no Python program", "*.py"))]
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        with _attributed(path):
            spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.resolve().parent))
        del sys.modules[name]
    return module


@contextlib.contextmanager
def _attributed(path: Path) -> Iterator[None]:
    """Run the author's code: its prints go to stderr, its errors become findings at the line of its file."""
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("always", PolicyWarning)
        try:
            yield
        except PolicyError as error:
            place = _line_in(path, error)
            raise ManifestError(Finding(str(path), place, problem) for problem in error.problems) from error
        except SyntaxError as error:
            at_fault = error.filename or str(path)
            place = Position(error.lineno or 1, error.offset or 1)
            raise ManifestError([Finding(at_fault, place, _failure(error))]) from error
        except (Exception, SystemExit) as error:
            raise ManifestError([Finding(str(path), _line_in(path, error), _failure(error))]) from error


def _line_in(path: Path, error: BaseException) -> Position | None:
    """Return the innermost line of the author's own file that the error passed through."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.lineno and Path(frame.filename).resolve() == path.resolve()
    ]
    return Position(lines[-1], 1) if lines else None


def _failure(error: BaseException) -> Problem:
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    fix = ""
    if isinstance(error, ModuleNotFoundError) and error.name:
        root = error.name.partition(".")[0]
        fix = f"pip install 'pillion[{root}]'" if root in ("kfp", "hera") else f"install {root} here"
    if isinstance(error, SystemExit):
        fix = 'put what must not run here below: if __name__ == "__main__":'
    return Problem("program-failed", what, "a pipeline's file runs without errors when it is imported", fix)
