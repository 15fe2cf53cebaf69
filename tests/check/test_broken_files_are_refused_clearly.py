"""Whatever it is given, the checker answers with findings that say where and why, and never fails itself."""

import os
import time

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pillion.check import check_text
from pillion.check.catalogue import RULES

WORKFLOW = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: w}
spec:
  entrypoint: main
  podMetadata: {labels: {pillion.dev/managed: "true"}}
  templates:
    - name: main
      dag:
        tasks:
          - {name: train, template: train, arguments: {parameters: [{name: share, value: "0.5"}]}}
    - name: train
      inputs: {parameters: [{name: share}]}
      metadata: {annotations: {pillion.dev/share: "{{inputs.parameters.share}}", pillion.dev/on-preempt: evict}}
      retryStrategy: {limit: 5, retryPolicy: Always, backoff: {maxDuration: 7d}}
      container: {image: busybox, resources: {limits: {cpu: 1}}}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: p
  labels: {pillion.dev/managed: "true"}
  annotations: {pillion.dev/share: "0.5"}
spec:
  containers: [{name: main, image: busybox}]
"""
KFP = """\
components: {comp-train: {executorLabel: exec-train}}
deploymentSpec: {executors: {exec-train: {container: {image: python}}}}
pipelineInfo: {name: p}
root: {dag: {tasks: {train: {componentRef: {name: comp-train}, retryPolicy: {maxRetryCount: 2}}}}}
schemaVersion: 2.1.0
---
platforms:
  kubernetes:
    deploymentSpec: {executors: {exec-train: {podMetadata: {annotations: {pillion.dev/share: "0.5"}}}}}
"""


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        (b"", (1, 1, "empty-file", "error")),
        (b"# only a comment\n---\n", (1, 1, "empty-file", "error")),
        (b"\x00\x01\x02binary", (1, 1, "not-text", "error")),
        (b"kind: Pod\nname: \xff\n", (2, 7, "not-text", "error")),
        (b"kind: Pod\nname: a\x07b\n", (2, 8, "yaml-syntax", "error")),
        (b'{"name": "pod",}}', (1, 17, "yaml-syntax", "error")),
        (b"just words", (1, 1, "not-a-mapping", "error")),
        (b"a: [" * 2000, (1, 4000, "yaml-syntax", "error")),
    ],
    ids=["empty", "comment", "binary", "not UTF-8", "control character", "JSON", "words", "deep flow"],
)
def test_unreadable(tmp_path, content, finding, found_in):
    path = tmp_path / "broken.yaml"
    path.write_bytes(content)
    assert found_in(path) == [finding]


def test_a_file_of_100_mb_is_refused_without_reading_it_all(tmp_path, found_in):
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 100 << 20)
    start = time.perf_counter()
    assert found_in(path) == [(1, 1, "file-too-large", "error")]
    assert time.perf_counter() - start < 5


def test_what_stands_before_a_syntax_error_is_checked_too(found):
    assert found(POD.replace('"0.5"', '"1.5"') + "---\nkind: [\n") == [
        (6, 17, "share-value", "error"),
        (11, 1, "yaml-syntax", "error"),
    ]


@pytest.mark.parametrize(
    "value", ['"0"', '"-1"', '"1e9"', '"0,5"', '"½"', '".nan"', '"NaN"', '""', f'"{"9" * 100_000}"']
)
def test_values_that_are_no_share(found, value):
    assert found(POD.replace('"0.5"', value)) == [(6, 17, "share-value", "error")]


@pytest.mark.parametrize("value", [".nan", "0", "-1", "1e9", "true", "null", "[]", "{}"])
def test_values_that_are_no_text(found, value):
    assert found(POD.replace('"0.5"', value)) == [(6, 17, "not-a-string", "error")]


def test_long_values_make_short_messages():
    (finding,) = check_text(POD.replace('"0.5"', f'"{"x" * 1_000_000}"'), "manifest.yaml")
    assert len(str(finding)) < 400


@pytest.mark.parametrize(
    "text",
    [
        "kind: ConfigMap\napiVersion: v1\ndata: {pillion.dev/share: '7'}\n",
        "replicas: 3\nimage: {tag: latest}\n",  # a chart's values
        "kind: PyTorchJob\napiVersion: kubeflow.org/v1\nspec: {whatever: true}\n",
        "apiVersion: v1\nkind: List\nitems: []\n",
    ],
)
def test_manifests_of_others_are_none_of_our_business(found, text):
    assert found(text) == []


def test_each_item_of_a_list_is_checked(found):
    pod = POD.replace('"0.5"', '"1.5"').replace("\n", "\n    ")
    assert found(f"apiVersion: v1\nkind: List\nitems:\n  - {pod}") == [(9, 21, "share-value", "error")]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("{{inputs.parameters.x}}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def _places_in(data, path=()):
    yield path
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from _places_in(value, (*path, key))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([WORKFLOW, POD, KFP]), st.data())
def test_any_value_at_any_place_is_answered_with_findings(text, data):
    documents = list(yaml.safe_load_all(text))
    for _ in range(2):
        path = data.draw(st.sampled_from([path for path in _places_in(documents) if path]))
        holder = documents
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = data.draw(ANYTHING)
    findings = check_text(yaml.safe_dump_all(documents), "manifest.yaml")
    assert all(finding.severity == RULES[finding.problem.code].severity for finding in findings)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([WORKFLOW, POD, KFP]), st.data())
def test_any_damage_to_the_text_is_answered_with_findings(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    damaged = text[:start] + data.draw(st.text(max_size=10)) + text[end:]
    assert all(finding.problem.code in RULES for finding in check_text(damaged, "manifest.yaml"))
