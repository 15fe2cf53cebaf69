"""Functions may be tagged and blocks opened before KFP or Hera is imported; neither is imported for that."""

import subprocess
import sys
import zipfile

import pytest

ADAPTER = """
import sys
called = []
def watch():
    called.append(sys.modules["framework"].ready)
"""
START = """
import sys
from pillion.authoring.late_imports import call_when_imported
call_when_imported("framework", "adapter", "watch")
call_when_imported("framework", "adapter", "watch")
assert not {"framework", "adapter"} & set(sys.modules)
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "adapter.py").write_text(ADAPTER)
    (tmp_path / "program.py").touch()

    def run(code):
        (tmp_path / "program.py").write_text(START + code)
        subprocess.run([sys.executable, tmp_path / "program.py"], check=True)

    return run


def package(folder):
    (folder / "framework").mkdir()
    (folder / "framework" / "__init__.py").write_text("import helper, framework.part\nready = framework.part.value\n")
    (folder / "helper.py").touch()
    (folder / "framework" / "part.py").write_text("value = 42\n")


def test_the_adapter_is_called_once_when_the_framework_is_ready(run, tmp_path):
    package(tmp_path)
    run(
        "import importlib, framework.part, framework, adapter; assert adapter.called == [42]\n"
        "importlib.reload(framework); assert adapter.called == [42]"
    )


def test_a_framework_in_a_zip_file_is_seen_too(run, tmp_path):
    package(tmp_path)
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for name in ("helper.py", "framework/__init__.py", "framework/part.py"):
            packed.write(tmp_path / name, name)
            (tmp_path / name).unlink()
    (tmp_path / "framework").rmdir()
    run(f"sys.path.insert(0, {str(archive)!r}); import framework, adapter; assert adapter.called == [42]")


def test_a_framework_that_is_there_already_is_called_at_once(run, tmp_path):
    package(tmp_path)
    run(
        "import framework, adapter; adapter.called.clear()\n"
        "call_when_imported('framework', 'adapter', 'watch'); assert adapter.called == [42]"
    )


def test_looking_for_a_framework_or_missing_it_does_no_harm(run, tmp_path):
    run(
        "import importlib.util; assert importlib.util.find_spec('framework') is None\n"
        "try: import framework\nexcept ModuleNotFoundError as error: assert error.name == 'framework'\n"
        "else: raise AssertionError"
    )


def test_a_framework_that_fails_to_import_may_be_imported_again(run, tmp_path):
    package(tmp_path)
    run(
        "sys.modules['framework.part'] = None\n"
        "try: import framework\nexcept ModuleNotFoundError: pass\n"
        "assert 'adapter' not in sys.modules; del sys.modules['framework.part']\n"
        "import framework, adapter; assert adapter.called == [42]"
    )
