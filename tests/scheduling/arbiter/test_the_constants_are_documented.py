"""docs/arbiter.md has a line with a reason for each constant, with the value that holds."""

import re
from pathlib import Path

from pillion.scheduling.arbiter import Tuning

DOCUMENT = Path(__file__).parents[3] / "docs" / "arbiter.md"


def written(name, value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value // 1_000_000} ms" if name.endswith("_ns") else str(value)


def test_each_constant_has_its_value_and_a_reason():
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    told = {name: value for name, value, reason in rows if name in Tuning._fields and reason.strip()}
    assert told == {name: written(name, value) for name, value in Tuning()._asdict().items()}
