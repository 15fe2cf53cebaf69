"""Changes are spliced into the text: what is not changed keeps its bytes, and what is changed says what it should."""

import copy
import json

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pillion.authoring.manifests.changes import put, remove
from pillion.authoring.manifests.document import parse
from pillion.authoring.manifests.splice import edits_for, spliced

# --- documents in many styles, written by a writer of the test's own -------------------------------------------------

KEYS = ["name", "metadata", "annotations", "labels", "a.b/c", "x", "y-1", "long key", "true"]
TEXTS = [
    "a",
    "train",
    "0.5",
    "8Gi",
    "true",
    "null",
    "",
    "two words",
    "it's",
    'say "hi"',
    "a: b",
    "# no comment",
    "é😀",
    "- x",
]
LINES = ["one\ntwo\n", "one\n\n  indented\n# not a comment\n", "last line open\nhere", "kept\n\n\n"]
SCALARS = st.one_of(st.sampled_from(TEXTS), st.sampled_from(LINES), st.integers(-3, 99), st.booleans(), st.none())


def trees(depth=3):
    if depth == 0:
        return SCALARS
    below = trees(depth - 1)
    mappings = st.dictionaries(st.sampled_from(KEYS), below, max_size=4)
    return st.one_of(SCALARS, mappings, st.lists(below, max_size=3))


ROOTS = st.dictionaries(st.sampled_from(KEYS), trees(), min_size=1, max_size=4)


class Writer:
    """Writes data as YAML in a style that is drawn anew at every step."""

    def __init__(self, draw):
        self.draw = draw
        self.unit = draw(st.integers(1, 4))
        self.flat_lists = draw(st.booleans())

    def one_of(self, *choices):
        return self.draw(st.sampled_from(choices))

    def quoted(self, text):
        return json.dumps(text, ensure_ascii=False)

    def inline(self, value):
        """A scalar on one line."""
        if value is None:
            return self.one_of("null", "~")
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return str(value)
        if "\n" not in value and self.one_of(True, False):
            return "'" + value.replace("'", "''") + "'"
        if value in ("a", "train", "two words", "8Gi", "é😀") and self.one_of(True, False):
            return value
        return self.quoted(value)

    def flow(self, value, indent):
        if not isinstance(value, dict | list):
            return self.inline(value)
        newline = self.one_of("", "", "\n" + " " * (indent + 2))
        inner = indent + 2 if newline else indent
        if isinstance(value, dict):
            entries = [f"{self.key(key)}: {self.flow(below, inner)}" for key, below in value.items()]
        else:
            entries = [self.flow(below, inner) for below in value]
        comma = self.one_of(",", ", ", " , ") + newline
        tail = self.one_of("", ",") if entries else ""
        end = newline[:-2] if newline else ""
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        return f"{opening}{newline if entries else ''}{comma.join(entries)}{tail}{end if entries else ''}{closing}"

    def key(self, key):
        return self.quoted(key) if key == "true" or self.one_of(True, False, False) else key

    def literal(self, text, indent):
        """A block scalar, whose chomping says how the text ends."""
        body = text.rstrip("\n")
        breaks = len(text) - len(body)
        if not body or body[0] == " ":
            return None
        header = "|-" if breaks == 0 else self.one_of("|", "|+") if breaks == 1 else "|+"
        lines = [f"{' ' * indent}{line}" if line else "" for line in body.split("\n")]
        return header + "\n" + "\n".join(lines) + "\n" * max(breaks, 1)

    def comment(self, indent):
        return self.one_of("", "", "", " " * indent + "# about what follows\n", "\n", "# at the edge\n\n")

    def value(self, value, indent):
        """What follows a key and its colon, or a dash, up to the end of the line or lines."""
        tail = self.one_of("", "", "  # why") + "\n"
        if isinstance(value, str) and self.one_of(True, False):
            literal = self.literal(value, indent + self.unit)
            if literal is not None:
                return " " + literal
        if value is None and self.one_of(True, False):
            return tail
        if not isinstance(value, dict | list) or not value or self.one_of(True, False, False, False):
            return " " + self.flow(value, indent) + tail
        if isinstance(value, dict):
            return tail + self.mapping(value, indent + self.unit)
        return tail + self.sequence(value, indent if self.flat_lists else indent + self.unit)

    def mapping(self, value, indent):
        lines = [
            f"{self.comment(indent) if number else ''}{' ' * indent}{self.key(key)}:{self.value(below, indent)}"
            for number, (key, below) in enumerate(value.items())
        ]
        return "".join(lines) + self.one_of("", "", " " * indent + "# the end\n")

    def sequence(self, value, indent):
        lines = []
        for item in value:
            gap = self.one_of(1, 1, 3)
            if isinstance(item, dict) and item and self.one_of(True, True, False):
                inner = indent + 1 + gap
                first = self.mapping(item, inner)[inner:]
                lines.append(" " * indent + "-" + " " * gap + first)
            else:
                saved, self.unit = self.unit, max(self.unit, 2)
                lines.append(" " * indent + "-" + self.value(item, indent))
                self.unit = saved
            lines.append(self.comment(indent))
        return "".join(lines)


@st.composite
def documents(draw):
    data = draw(ROOTS)
    style = draw(st.sampled_from(["block", "block", "block", "flow", "json", "compact", "indented"]))
    writer = Writer(draw)
    if style == "block":
        text = draw(st.sampled_from(["", "# first\n", "---\n", "%YAML 1.2\n---\n"])) + writer.mapping(data, 0)
        text += draw(st.sampled_from(["", "", "...\n", "---\nanother: document\n"]))
    elif style == "flow":
        text = writer.flow(data, 0) + "\n"
    else:
        shape = {"json": {}, "compact": {"separators": (",", ":")}, "indented": {"indent": draw(st.integers(1, 4))}}
        text = json.dumps(data, ensure_ascii=False, **shape[style])
    if draw(st.booleans()) and not text.endswith(("\n\n", "+\n")):
        text = text.removesuffix("\n")
    if draw(st.sampled_from([True, False, False])):
        text = text.replace("\n", "\r\n")
    return text


def mappings_in(value, path=()):
    """Yield the path of every mapping, and of what could become one."""
    if isinstance(value, dict):
        yield path
        for key, below in value.items():
            yield from mappings_in(below, (*path, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from mappings_in(below, (*path, index))
    elif value is None and path and not isinstance(path[-1], int):
        yield path


def first_document(text):
    return next(parse(text, "file.yaml"))


def reach(data, path):
    for key in path:
        if data[key] is None:
            data[key] = {}
        data = data[key]
    return data


ADDITIONS = st.dictionaries(
    st.sampled_from(["pillion.dev/share", "pillion.dev/managed", "new", "other"]),
    st.sampled_from(["0.5", "true", "low", "8Gi", {"limit": "5", "retryPolicy": "Always"}, {"deep": {"er": "x"}}]),
    min_size=1,
)


@settings(max_examples=600, deadline=None)
@given(documents(), st.data())
def test_entries_are_added_anywhere(text, data):
    document = first_document(text)
    expected = copy.deepcopy(document.data)
    changes = {}
    for path in data.draw(st.lists(st.sampled_from(list(mappings_in(document.data))), min_size=1, max_size=3)):
        for key, value in data.draw(ADDITIONS).items():
            put(changes, (*path, key), value)
            reach(expected, path)[key] = value
    edits = edits_for(text, document, changes)
    result = spliced(text, edits)
    assert first_document(result).data == expected
    inserted = [edit for edit in edits if edit.start == edit.end]
    replaced = {text[edit.start : edit.end].strip() for edit in edits if edit not in inserted}
    assert replaced <= {"", "null", "~", "{}", "{\n}", "{\r\n}"}  # what stands where there is nothing
    assert ("\r\n" in text) == ("\r\n" in result) or "\n" not in text


@settings(max_examples=300, deadline=None)
@given(documents(), st.data())
def test_entries_are_replaced_and_removed(text, data):
    assume("|+" not in text)  # blank lines below what goes would become the kept scalar's
    document = first_document(text)
    filled = [path for path in mappings_in(document.data) if len(reach_or_none(document.data, path) or ()) > 1]
    if not filled:
        return
    path = data.draw(st.sampled_from(filled))
    gone, changed, *_ = data.draw(st.permutations(list(reach_or_none(document.data, path))))
    expected = copy.deepcopy(document.data)
    del reach(expected, path)[gone]
    changes = {}
    remove(changes, (*path, gone))
    if not isinstance(reach(expected, path)[changed], dict | list):
        reach(expected, path)[changed] = "0.25"
        put(changes, (*path, changed), "0.25")
    assert first_document(spliced(text, edits_for(text, document, changes))).data == expected


def reach_or_none(data, path):
    for key in path:
        data = data[key]
    return data
