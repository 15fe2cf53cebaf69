"""Every rule has a small manifest in `defects/` that breaks it; its `#=` lines say what must be found, and where.

Whole lists are compared, so a rule that fires where it should not fails here as well.
"""

import re
from pathlib import Path

import pytest

from pillion.check import check_file
from pillion.check.catalogue import RULES

DEFECTS = sorted((Path(__file__).parent / "defects").glob("*.yaml"))

# What no YAML text can show, and where it is tested instead.
NOT_IN_A_MANIFEST = {
    "empty-file": "test_broken_files_are_refused_clearly",
    "not-text": "test_broken_files_are_refused_clearly",
    "file-too-large": "test_broken_files_are_refused_clearly",
    "unresolved-parameter": "tests/policy: pods only",
    "cannot-translate": "tests/authoring/translate",
    "inexact-translation": "tests/authoring/translate",
}


@pytest.mark.parametrize("path", DEFECTS, ids=lambda path: path.stem)
def test_defect(path, found_in, expected):
    assert found_in(path) == expected(path.read_text())


@pytest.mark.parametrize("path", DEFECTS, ids=lambda path: path.stem)
def test_every_line_is_complete(path):
    """A finding is one line: place, severity, code, what was given, and what is allowed or what to do."""
    line = re.compile(rf"{re.escape(str(path))}:\d+:\d+: (error|warning)\[[a-z-]+\]: [^\n]+ — [^\n]+")
    for finding in check_file(path):
        assert line.fullmatch(str(finding)), str(finding)


def test_every_rule_has_a_defect(expected):
    seeded = {code for path in DEFECTS for _, _, code, _ in expected(path.read_text())}
    checked = {code for code, rule in RULES.items() if rule.family not in ("decorators", "compile", "programs")}
    assert seeded | set(NOT_IN_A_MANIFEST) >= checked
