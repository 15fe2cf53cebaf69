"""Write the parts of docs/ that are generated from the code; `--check` only says whether they are up to date."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pillion.policy import TERMS

DOCS = Path(__file__).resolve().parent.parent / "docs"


def contract_table() -> str:
    """Return the contract's table in Markdown."""
    rows = [f"| `{term.key}` | {term.values} | {term.default} | {term.meaning} | `{term.argument}` |" for term in TERMS]
    head = ["| key | values | default | meaning | decorator |", "|---|---|---|---|---|"]
    return "\n".join(head + rows)


def with_table(text: str, table: str) -> str:
    """Return `text` with what stands between its table marks replaced."""
    return re.sub(r"(<!-- table:.*?-->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{table}\n{m[2]}", text, flags=re.DOTALL)


def main(arguments: list[str]) -> int:
    """Write or check every generated part; return 1 if a check found one out of date."""
    path = DOCS / "contract.md"
    old = path.read_text()
    new = with_table(old, contract_table())
    if "--check" in arguments:
        if old != new:
            print(f"{path} is out of date: run python tools/write_docs.py")
        return int(old != new)
    path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
