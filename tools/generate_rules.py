"""Write docs/rules.md from the catalogue of rules: `python tools/generate_rules.py`."""

from __future__ import annotations

from pathlib import Path

from pillion.check.catalogue import FAMILIES, RULES

DOCUMENT = Path(__file__).parent.parent / "docs" / "rules.md"

_HEAD = """\
# Rules

Every message of Pillion's carries a code, and each code is listed here. `pillion check` writes

    file:line:column: error[code]: what was given — what is allowed — how to mend it

and exits with 1 if there is an error; a warning alone leaves the exit code at 0.
"""


def text() -> str:
    """Return the document."""
    parts = [_HEAD]
    for family, title in FAMILIES.items():
        rules = [rule for rule in RULES.values() if rule.family == family]
        rows = [f"| `{rule.code}` | {rule.severity} | {_cell(rule.summary)} | {_cell(rule.fix)} |" for rule in rules]
        parts.append(
            "\n".join([f"## {title}", "", "| code | severity | finds | mend it |", "|---|---|---|---|", *rows, ""])
        )
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    DOCUMENT.write_text(text(), encoding="utf-8")
