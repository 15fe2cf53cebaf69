"""Changes in block style, in whole lines wherever possible."""

from __future__ import annotations

from typing import Any

import yaml

from pillion.authoring.manifests import emit, flow
from pillion.authoring.manifests.changes import Changes, changed
from pillion.authoring.manifests.document import Collection
from pillion.authoring.manifests.layout import Entry, column_indent, entries
from pillion.authoring.manifests.page import Page


def change_block(page: Page, node: Collection, changes: Changes, data: Any) -> None:
    """Make changes in a block mapping or block list whose value is `data`."""
    present = entries(page.text, node)
    indent = column_indent(page.text, present[0].start)
    work = page.sort(node, present, changes, data)
    for entry, change, value in work.altered:
        inside = page.inside(entry, change)
        if inside is None:
            _write(page, entry, changed(value, change), indent)
        elif inside[0].flow_style:
            flow.change_flow(page, *inside, value, emit.Flow(unit=page.unit))
        else:
            change_block(page, *inside, value)
    kept = [entry for entry in present if entry not in work.removed]
    if work.added:
        if isinstance(node, yaml.MappingNode):
            lines = emit.block_mapping({str(name): value for name, value in work.added}, indent, page.unit)
        else:
            lines = [line for _, value in work.added for line in emit.block_item(value, indent, page.unit)]
        _insert(page, present, kept, lines, indent)
    for entry in work.removed:
        _remove(page, entry, present, kept)


def _write(page: Page, entry: Entry, value: Any, indent: str) -> None:
    """Write a value in place of one that is empty, an alias, or on its key's line."""
    if not isinstance(value, dict | list) or not value:
        page.write_value(entry, emit.Flow().value(value))
    elif isinstance(entry.name, int):
        indent = f"{indent}  " if entry.is_empty else column_indent(page.text, entry.value_start)
        lines = emit.block_mapping(value, indent, page.unit) if isinstance(value, dict) else [emit.Flow().value(value)]
        page.write_value(entry, page.line_break.join(lines).lstrip(" "))
    else:
        # The new value takes the lines below; what stood on the key's line goes, its anchor and comment stay.
        start = entry.after + len(page.text[entry.after : entry.value_start].rstrip())
        page.replace(start, entry.value_end, "")
        if isinstance(value, dict):
            lines = emit.block_mapping(value, indent + page.unit, page.unit)
        else:
            lines = [line for item in value for line in emit.block_item(item, indent, page.unit)]
        page.insert_lines(entry.value_end, lines)


def _insert(page: Page, present: list[Entry], kept: list[Entry], lines: list[str], indent: str) -> None:
    """Insert lines behind the name, which leads an object, or else behind the last entry."""
    leader = next((entry for entry in kept if entry.name == "name" and isinstance(entry.node, yaml.ScalarNode)), None)
    after = leader or present[-1]
    if not after.is_open:
        page.insert_lines(after.value_end, lines)
    else:
        start = present[0].start
        page.replace(start, start, page.line_break.join(lines).lstrip(" ") + page.line_break + indent)


def _remove(page: Page, entry: Entry, present: list[Entry], kept: list[Entry]) -> None:
    if _begins_line(page.text, present[0]) or any(other.start < entry.start for other in kept):
        line_start = page.text.rfind("\n", 0, entry.start) + 1
        page.replace(line_start, _behind(page.text, entry, entry.start - line_start), "")
    elif entry is present[0]:
        # It follows the dash of a list's item: the first entry that is kept moves up.
        page.replace(entry.start, kept[0].start if kept else present[-1].value_end, "")


def _behind(text: str, entry: Entry, column: int) -> int:
    """Return where the line begins that follows an entry and the comments that are indented as its own.

    The blank lines that trail a block scalar are its own too. Left behind, either might become part of another's.
    """
    is_block_scalar = isinstance(entry.node, yaml.ScalarNode) and entry.node.style in ("|", ">")
    own_end = entry.node.end_mark.index - 1 if is_block_scalar and not entry.is_alias else entry.value_end
    newline = text.find("\n", own_end)
    end = start = newline + 1 if newline >= 0 else len(text)
    while start < len(text):
        newline = text.find("\n", start)
        line = text[start : newline + 1 if newline >= 0 else len(text)]
        comment = line.lstrip()
        if comment and not (comment.startswith("#") and len(line) - len(comment) > column):
            break
        start += len(line)
        end = start if comment else end
    return end


def _begins_line(text: str, entry: Entry) -> bool:
    return not text[text.rfind("\n", 0, entry.start) + 1 : entry.start].strip(" ")
