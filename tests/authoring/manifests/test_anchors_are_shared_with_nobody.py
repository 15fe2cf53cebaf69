"""A policy on one step never reaches another through an anchor, an alias or a merge key."""

import textwrap

import pytest
import yaml

from pillion.authoring.findings import ManifestError
from pillion.authoring.manifests.compile import compile_text
from pillion.authoring.manifests.settings import parse_setting

HEAD = "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec:\n  templates:\n"


def compiled(templates, *settings):
    text = HEAD + textwrap.indent(textwrap.dedent(templates), "  ")
    result = compile_text(text, "wf.yaml", [parse_setting(setting) for setting in settings]).text
    return result.removeprefix(HEAD), {each["name"]: each for each in yaml.safe_load(result)["spec"]["templates"]}


POLICY = {
    "metadata": {
        "annotations": {"pillion.dev/priority": "normal", "pillion.dev/share": "0.5"},
        "labels": {"pillion.dev/managed": "true"},
    },
    "priorityClassName": "pillion-normal",
}
SHARED_METADATA = """\
    - name: one
      metadata: &m
        labels: {team: vision}
      container: {image: a}
    - name: two
      metadata: *m  # like one
      container: {image: b}
    """
MERGED = """\
    - &base
      name: one
      metadata:
        labels: {team: vision}
      container: {image: a}
    - <<: *base
      name: two
    """


def test_an_alias_is_written_out_where_a_step_gets_a_policy():
    text, templates = compiled(SHARED_METADATA, "two: share=0.5")
    assert templates["one"] == {"name": "one", "metadata": {"labels": {"team": "vision"}}, "container": {"image": "a"}}
    assert templates["two"]["metadata"] == {
        "annotations": POLICY["metadata"]["annotations"],
        "labels": {"team": "vision", "pillion.dev/managed": "true"},
    }
    assert "  metadata: &m\n" in text
    assert "  metadata:  # like one\n" in text
    assert "*m" not in text


def test_the_anchored_value_itself_is_not_changed_while_others_use_it():
    with pytest.raises(ManifestError) as refused:
        compiled(SHARED_METADATA, "one: share=0.5")
    assert str(refused.value) == (
        "wf.yaml:6:15: error[shared-anchor]: this value is also used elsewhere in the document, through its anchor — "
        "a policy changes one step only — write the value out where it is used, then compile again"
    )


def test_the_anchored_value_is_changed_where_all_that_use_it_are():
    _, templates = compiled(SHARED_METADATA, ".*: share=0.5")
    expected = {
        "annotations": POLICY["metadata"]["annotations"],
        "labels": {"team": "vision", "pillion.dev/managed": "true"},
    }
    assert [template["metadata"] for template in templates.values()] == [expected, expected]


def test_an_anchor_that_nobody_uses_is_no_obstacle():
    text, templates = compiled(
        "- name: one\n  metadata: &m {labels: {a: b}}\n  container: {image: a}\n", "one: share=0.5"
    )
    assert "metadata: &m {labels: {a: b, " in text
    assert templates["one"]["metadata"]["annotations"] == POLICY["metadata"]["annotations"]


def test_what_a_merge_key_brings_is_repeated_where_it_changes():
    _, templates = compiled(MERGED, "two: share=0.5")
    assert templates == {
        "one": {"name": "one", "metadata": {"labels": {"team": "vision"}}, "container": {"image": "a"}},
        "two": {
            "name": "two",
            "container": {"image": "a"},
            "metadata": {
                "annotations": POLICY["metadata"]["annotations"],
                "labels": {"team": "vision", "pillion.dev/managed": "true"},
            },
            "priorityClassName": "pillion-normal",
        },
    }


def test_what_others_merge_is_not_changed():
    with pytest.raises(ManifestError, match=r"wf.yaml:5:5: error\[shared-anchor\]"):
        compiled(MERGED, "one: share=0.5")


def test_a_whole_template_through_an_alias_is_written_out():
    templates = """\
        - &base {name: one, container: {image: a}}
        - *base
        """
    # Both have the same name, so both are meant.
    _, found = compiled(templates, "one: share=0.5")
    assert found == {"one": {"name": "one", "container": {"image": "a"}, **POLICY}}


def test_a_scalar_through_an_alias_is_replaced_where_it_stands():
    text, templates = compiled(
        """\
        - name: one
          metadata:
            annotations: {size: &half "500m", pillion.dev/share: *half}
          container: {image: a}
        """
    )
    assert templates["one"]["metadata"]["annotations"] == {
        "size": "500m",
        "pillion.dev/share": "0.5",
        "pillion.dev/priority": "normal",
    }
    assert '&half "500m"' in text


def test_an_anchored_value_of_ours_that_others_use_is_refused():
    with pytest.raises(ManifestError, match="shared-anchor"):
        compiled(
            """\
            - name: one
              metadata:
                annotations: {pillion.dev/share: &half "500m", size: *half}
              container: {image: a}
            """
        )
