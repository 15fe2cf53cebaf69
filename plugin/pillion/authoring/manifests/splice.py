"""Making changes in a manifest's text so that every byte that need not change stays.

New entries go in as whole lines in block style and between commas in flow style, laid out like their surroundings. The
result is read again and compared with what it should say: whatever cannot be changed in place, such as a value that
other places share through an anchor, is refused rather than spoilt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pillion.authoring.findings import ManifestError
from pillion.authoring.manifests.block import change_block
from pillion.authoring.manifests.changes import Changes, MisfitError, changed
from pillion.authoring.manifests.document import Document, parse
from pillion.authoring.manifests.flow import change_flow, style_of_root
from pillion.authoring.manifests.page import Edit, Page, same
from pillion.policy import Problem, echo

# What the document before may leave: comments, and the marker that ends it.
_END_OF_ANOTHER = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\r?\n)*\.\.\.[^\n]*\n?")


def spliced(text: str, edits: Iterable[Edit], start: int = 0, end: int | None = None) -> str:
    """Return `text`, or its part from `start` to `end`, with the edits made that lie in it; they do not overlap."""
    parts = []
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        parts += [text[start : edit.start], edit.text]
        start = edit.end
    return "".join([*parts, text[start:end]])


def edits_for(text: str, document: Document, changes: Changes) -> list[Edit]:
    """Work out the edits that make `changes` in a document of `text`.

    Raises:
        ManifestError: What is to be added to is text or a number, or its text cannot be changed without changing
            something else.
    """
    try:
        expected = changed(document.data, changes)
    except MisfitError as error:
        problem = Problem("not-a-mapping", f"{error.path[-1]} is {echo(error.value)}", "it holds keys and values")
        raise ManifestError([document.finding(error.path, problem)]) from None
    page = Page(text, document)
    if document.node.flow_style:
        change_flow(page, document.node, changes, document.data, style_of_root(page))
    else:
        change_block(page, document.node, changes, document.data)
    if not _says(page, expected):
        raise _refusal(page)
    return page.edits


def _says(page: Page, expected: object) -> bool:
    document = page.document
    text = spliced(page.text, page.edits, document.start, document.end)
    if match := _END_OF_ANOTHER.match(text):
        text = text[match.end() :]
    try:
        data = [found.data for found in parse(text, document.file)]
    except ManifestError:
        return False
    return len(data) == 1 and same(data[0], expected)


def _refusal(page: Page) -> ManifestError:
    shared = page.shared()
    if shared is not None:
        return page.refused(
            shared, "shared-anchor", "this value is also used elsewhere in the document, through its anchor",
            "a policy changes one step only", "write the value out where it is used, then compile again",
        )  # fmt: skip
    return page.refused(
        page.document.node, "cannot-edit", "this document is written in a way that cannot be added to in place",
        "block style, flow style or JSON without explicit keys", "rewrite it in plain block style",
    )  # fmt: skip
