"""A policy is written as the file's author would have written it: indentation, quotes, commas, comments, line breaks."""

import textwrap

import pytest

from pillion.authoring.findings import ManifestError
from pillion.authoring.manifests.changes import put, remove
from pillion.authoring.manifests.document import parse
from pillion.authoring.manifests.splice import edits_for, spliced


def changed(text, *puts, removed=()):
    changes = {}
    for path, value in puts:
        put(changes, path.split("."), value)
    for path in removed:
        remove(changes, path.split("."))
    (document,) = parse(text, "file.yaml")
    return spliced(text, edits_for(text, document, changes))


LABEL = ("metadata.labels.managed", "true")
TIER = ("metadata.annotations.tier", "low")


def test_new_metadata_follows_the_name_and_leaves_comments_where_they_were():
    before = textwrap.dedent("""\
        name: train   # the long one
        # A container of our own.
        container:
          image: trainer  # pinned elsewhere
        # That is all.
        """)
    assert changed(before, TIER, LABEL) == textwrap.dedent("""\
        name: train   # the long one
        metadata:
          annotations:
            tier: low
          labels:
            managed: "true"
        # A container of our own.
        container:
          image: trainer  # pinned elsewhere
        # That is all.
        """)


def test_indentation_is_that_of_the_document():
    before = "metadata:\n    name: x\n    annotations:\n        a: b\nspec: {}\n"
    after = 'metadata:\n    name: x\n    labels:\n        managed: "true"\n    annotations:\n        a: b\n        tier: low\nspec: {}\n'
    assert changed(before, TIER, LABEL) == after


@pytest.mark.parametrize("nothing", ["metadata:", "metadata: ~", "metadata: null", "metadata: {}", "metadata: { }"])
def test_empty_metadata_is_filled_in(nothing):
    assert changed(f"a: 1\n{nothing}  # ours\nb: 2\n", LABEL) == (
        'a: 1\nmetadata:  # ours\n  labels:\n    managed: "true"\nb: 2\n'
    )


def test_what_ends_with_a_block_scalar_is_added_to_before_the_blank_lines_that_it_does_not_keep():
    before = "metadata:\n  annotations:\n    note: |\n      hello\n\n# next\nspec: 1\n"
    after = "metadata:\n  annotations:\n    note: |\n      hello\n    tier: low\n\n# next\nspec: 1\n"
    assert changed(before, TIER) == after


def test_what_ends_with_a_kept_block_scalar_is_added_to_behind_the_blank_lines_that_it_keeps():
    before = "metadata:\n  annotations:\n    note: |+\n      hello\n\n# next\nspec: 1\n"
    after = "metadata:\n  annotations:\n    note: |+\n      hello\n\n    tier: low\n# next\nspec: 1\n"
    assert changed(before, TIER) == after


def test_a_block_scalar_that_ends_the_file_without_a_line_break_stays_the_last():
    before = "metadata:\n  annotations:\n    note: |\n      hello"
    after = "metadata:\n  annotations:\n    tier: low\n    note: |\n      hello"
    assert changed(before, TIER) == after


def test_a_file_without_a_final_line_break_stays_without():
    assert changed("metadata:\n  labels:\n    a: b", LABEL) == 'metadata:\n  labels:\n    a: b\n    managed: "true"'


def test_windows_line_breaks_stay():
    before = "metadata:\r\n  labels:\r\n    a: b\r\nspec: 1\r\n"
    assert changed(before, LABEL) == 'metadata:\r\n  labels:\r\n    a: b\r\n    managed: "true"\r\nspec: 1\r\n'


def test_flow_style_is_kept():
    assert changed("metadata: {labels: {a: b}, x: [1]}  # c\n", LABEL, TIER) == (
        'metadata: {labels: {a: b, managed: "true"}, x: [1], annotations: {tier: low}}  # c\n'
    )


def test_flow_style_over_several_lines_is_kept():
    before = "metadata: {\n    labels: {\n        a: b\n    },\n  }\n"
    after = (
        'metadata: {\n    labels: {\n        a: b,\n        managed: "true"\n    },\n'
        "    annotations: {\n      tier: low\n    },\n  }\n"
    )
    assert changed(before, LABEL, TIER) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"metadata":{"labels":{}}}', '{"metadata":{"labels":{"managed":"true"}}}'),
        ('{"metadata": {"labels": null}}', '{"metadata": {"labels": {"managed": "true"}}}'),
        ('{"name":"x","y":1}', '{"name":"x","metadata":{"labels":{"managed":"true"}},"y":1}'),
        (
            '{\n    "metadata": {\n        "x": [\n            1\n        ]\n    }\n}\n',
            '{\n    "metadata": {\n        "x": [\n            1\n        ],\n        "labels": {\n'
            '            "managed": "true"\n        }\n    }\n}\n',
        ),
        ('{\n\t"metadata": {}\n}', '{\n\t"metadata": {\n\t\t"labels": {\n\t\t\t"managed": "true"\n\t\t}\n\t}\n}'),
    ],
)
def test_json_stays_json_and_as_compact_as_it_was(before, after):
    assert changed(before, LABEL) == after


def test_a_removed_entry_takes_its_line_and_no_other():
    before = "a:\n  # about x\n  x: 1  # one\n\n  y: 2\n  z: 3\n"
    assert changed(before, removed=["a.x"]) == "a:\n  # about x\n\n  y: 2\n  z: 3\n"
    assert changed(before, removed=["a.x", "a.z"]) == "a:\n  # about x\n\n  y: 2\n"


def test_an_entry_behind_a_dash_gives_its_place_to_the_next():
    (document,) = parse("l:\n- x: 1  # one\n  y: 2\n  z: 3\n", "file.yaml")
    changes = {}
    remove(changes, ("l", 0, "x"))
    text = "l:\n- x: 1  # one\n  y: 2\n  z: 3\n"
    assert spliced(text, edits_for(text, document, changes)) == "l:\n- y: 2\n  z: 3\n"


def test_entries_removed_from_flow_style_take_their_commas():
    assert changed("a: {x: 1, y: 2, z: 3}\n", removed=["a.x"]) == "a: {y: 2, z: 3}\n"
    assert changed("a: {x: 1, y: 2, z: 3}\n", removed=["a.y", "a.z"]) == "a: {x: 1}\n"
    assert changed("a: {x: 1, y: 2}\n", ("a.w", "low"), removed=["a.x", "a.y"]) == "a: {w: low}\n"


def test_text_that_would_be_read_as_something_else_is_quoted():
    values = {"a": "true", "b": "0.5", "c": "8Gi", "d": "low", "e": "1%", "f": 'say "hi"\n', "g": "No", "h": "é\u2028"}
    text = changed("x: 1\n", *values.items())
    assert text == (
        'x: 1\na: "true"\nb: "0.5"\nc: 8Gi\nd: low\ne: "1%"\nf: "say \\"hi\\"\\n"\ng: "No"\nh: "é\\u2028"\n'
    )
    (document,) = parse(text, "file.yaml")
    assert document.data == {"x": 1, **values}


def test_text_where_a_mapping_belongs_is_refused_with_its_place():
    with pytest.raises(ManifestError) as refused:
        changed("a: 1\nmetadata:\n  labels: hello\n", LABEL)
    assert str(refused.value) == ('file.yaml:3:3: error[not-a-mapping]: labels is "hello" — it holds keys and values')


def test_explicit_keys_are_refused_rather_than_spoilt():
    with pytest.raises(ManifestError, match=r"file.yaml:1:1: error\[cannot-edit\]"):
        changed("? metadata\n: labels:\n    a: b\n? spec\n: 1\n", ("new", "entry"))
