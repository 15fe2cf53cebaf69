"""Reading what a defective manifest says should be found in it, and what is found."""

import re
from pathlib import Path

import pytest

from pillion.check import check_file, check_text

_EXPECTATION = re.compile(r"#= (error|warning)\[([\w-]+)\] (\d+):(\d+)")


def _expected(text):
    said = [(int(line), int(column), code, severity) for severity, code, line, column in _EXPECTATION.findall(text)]
    return sorted(said)


def _places(findings):
    return [(f.position.line, f.position.column, f.problem.code, f.severity) for f in findings]


@pytest.fixture(scope="session")
def expected():
    """Return the `#= severity[code] line:column` lines of a manifest as `found` does."""
    return _expected


@pytest.fixture(scope="session")
def found():
    """Check a text and return (line, column, code, severity) of every finding, in the order of its place."""
    return lambda text: _places(check_text(text, "manifest.yaml"))


@pytest.fixture(scope="session")
def found_in():
    """Check a file likewise."""
    return lambda path: _places(check_file(path))


@pytest.fixture(scope="session")
def corpus():
    """The folder of public manifests, which lies beside the project; tests that need it are skipped without it."""
    folder = Path(__file__).resolve().parents[3] / "shared" / "corpus"
    if not folder.is_dir():
        pytest.skip("the public manifests are not here: ../shared/corpus")
    return folder
