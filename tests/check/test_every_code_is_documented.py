"""No message carries a code that people cannot look up, and nothing is documented that cannot happen."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

from pillion.check.catalogue import FAMILIES, RULES
from pillion.policy import TERMS

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"[a-z]+(-[a-z]+)+")


def codes_in(source):
    """Return every code that a call makes a problem with: of `Problem`, or of a helper that is named like one."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if not name.lower().endswith(("problem", "refusal", "refused", "report")):
            continue
        for argument in node.args[:2]:
            for part in ast.walk(argument):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and CODE.fullmatch(part.value):
                    yield part.value


@pytest.fixture(scope="module")
def used():
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "plugin" / "pillion").rglob("*.py"))
    return {code for source in sources for code in codes_in(source)} | {term.code for term in TERMS}


def test_every_code_is_in_the_catalogue(used):
    assert used - set(RULES) == set()


def test_every_rule_is_used(used):
    assert set(RULES) - used == set()


def test_every_rule_has_a_family():
    assert {rule.family for rule in RULES.values()} == set(FAMILIES)


def test_the_document_is_the_catalogue():
    tool = ROOT / "tools" / "generate_rules.py"
    spec = importlib.util.spec_from_file_location("generate_rules", tool)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "rules.md").read_text(encoding="utf-8") == module.text(), (
        "run python tools/generate_rules.py"
    )
