"""What docs/ says is what the code does."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_contracts_table_in_the_documents_is_the_one_in_the_code():
    text = (ROOT / "docs" / "contract.md").read_text()
    write_docs = tool("write_docs")
    assert write_docs.with_table(text, write_docs.contract_table()) == text
    assert write_docs.with_table(text, "something else") != text


def test_the_package_and_the_workspace_carry_the_same_licence():
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    for project in ("plugin", "nodeagent"):
        assert 'license = "Apache-2.0"' in (ROOT / project / "pyproject.toml").read_text()
