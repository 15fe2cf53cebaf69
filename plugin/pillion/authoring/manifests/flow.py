"""Changes in flow style and JSON, between commas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import yaml

from pillion.authoring.manifests import emit
from pillion.authoring.manifests.changes import Changes, changed
from pillion.authoring.manifests.document import Collection
from pillion.authoring.manifests.layout import Entry, entries, flow_indent
from pillion.authoring.manifests.page import Page


def change_flow(page: Page, node: Collection, changes: Changes, data: Any, around: emit.Flow) -> None:
    """Make changes in a flow mapping or list whose value is `data`; `around` says how what holds it is laid out."""
    present = entries(page.text, node)
    style = _style(page, node, present, around)
    work = page.sort(node, present, changes, data)
    for entry, change, value in work.altered:
        inside = page.inside(entry, change)
        if inside is not None:
            change_flow(page, *inside, value, style)
        else:
            page.write_value(entry, style.value(changed(value, change)))
    kept = [entry for entry in present if entry not in work.removed]
    for entry in work.removed:
        _remove(page, entry, present, kept)
    if work.added:
        mapping = isinstance(node, yaml.MappingNode)
        texts = [style.entry(str(name), value) if mapping else style.value(value) for name, value in work.added]
        _insert(page, node, kept, texts, style)


def style_of_root(page: Page) -> emit.Flow:
    """Return how a document is laid out that is in flow style as a whole: it is JSON, indented or not."""
    root = page.document.node
    indent = flow_indent(page.text, root) if root.value else None
    if indent is None:
        return emit.Flow(json=True)
    return emit.Flow(json=True, newline=page.line_break, unit=indent.removeprefix(page.line_break))


def _style(page: Page, node: Collection, present: list[Entry], around: emit.Flow) -> emit.Flow:
    """Return how this collection's entries are laid out; an empty one takes after what holds it."""
    if not present:
        return around.deeper()
    first, text = present[0], page.text
    newline = flow_indent(text, node)
    is_json = node.value[0][0].style == '"' if isinstance(node, yaml.MappingNode) else around.json
    colon, comma = around.colon, around.comma
    if isinstance(node, yaml.MappingNode) and is_json:
        # Only where keys are in quotes may the blank behind the colon be missing.
        colon = ":" if text[first.after : first.after + 1].strip() else ": "
        comma = colon.replace(":", ",")
    if len(present) > 1 and newline is None:
        behind_comma = text[first.value_end : present[1].start].partition(",")[2]
        comma = ", " if behind_comma else ","
    return replace(around, json=is_json, colon=colon, comma=comma, newline=newline)


def _insert(page: Page, node: Collection, kept: list[Entry], texts: list[str], style: emit.Flow) -> None:
    """Insert entries behind the name, which leads an object, or else behind the last entry."""
    separator = style.comma if style.newline is None else f",{style.newline}"
    leader = next((entry for entry in kept if entry.name == "name" and isinstance(entry.node, yaml.ScalarNode)), None)
    after = leader or (kept[-1] if kept else None)
    if after is not None and not after.is_empty:
        page.replace(after.value_end, after.value_end, "".join(separator + text for text in texts))
        return
    # No entry has an end that is certain; right behind the bracket is always possible.
    start = page.text.index("{" if isinstance(node, yaml.MappingNode) else "[", node.start_mark.index) + 1
    lead, tail = style.newline or "", "" if not kept else "," if style.newline else style.comma
    page.replace(start, start, lead + separator.join(texts) + tail)


def _remove(page: Page, entry: Entry, present: list[Entry], kept: list[Entry]) -> None:
    index = present.index(entry)
    if any(other.start > entry.start for other in kept):
        page.replace(entry.start, present[index + 1].start, "")
    elif not kept:
        page.replace(entry.start, entry.value_end if entry is present[-1] else present[index + 1].start, "")
    elif present[index - 1] is kept[-1]:
        page.replace(kept[-1].value_end, present[-1].value_end, "")
