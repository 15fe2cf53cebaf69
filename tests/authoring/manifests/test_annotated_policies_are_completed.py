"""`pillion compile` on a manifest whose author wrote the annotations: validated, spelt canonically, completed."""

import textwrap

import pytest
import yaml

from pillion.authoring.findings import ManifestError
from pillion.authoring.manifests.compile import compile_text

HEAD = "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: w}\nspec:\n"


def argo(body):
    return HEAD + textwrap.indent(textwrap.dedent(body), "  ")


def compiled(text, file="wf.yaml"):
    result = compile_text(text, file)
    assert compile_text(result.text, file).text is result.text  # and once is enough
    return result


def codes(text):
    with pytest.raises(ManifestError) as refused:
        compile_text(text, "wf.yaml")
    return [(str(f).split(": ")[0], f.problem.code) for f in refused.value.findings]


def test_everything_that_a_step_needs_is_added_once():
    before = argo("""\
        templates:
          - name: train
            metadata:
              annotations:
                pillion.dev/memory: 8Gi  # fits
                pillion.dev/priority: low
                pillion.dev/on-preempt: evict
                pillion.dev/limit: "1.0"
                team: vision
            container: {image: x}
        """)
    after = argo("""\
        templates:
          - name: train
            priorityClassName: pillion-low
            retryStrategy:
              limit: "5"
              retryPolicy: Always
            metadata:
              annotations:
                pillion.dev/memory: 8Gi  # fits
                pillion.dev/priority: low
                pillion.dev/on-preempt: evict
                pillion.dev/limit: "1"
                team: vision
              labels:
                pillion.dev/managed: "true"
            container: {image: x}
        """)
    result = compiled(before)
    assert result.text == after
    assert result.findings == ()
    assert result.policies == (
        ("train", {"pillion.dev/limit": "1", "pillion.dev/memory": "8Gi", "pillion.dev/on-preempt": "evict",
                   "pillion.dev/priority": "low"}),
    )  # fmt: skip


def test_a_complete_step_is_left_alone_to_the_byte():
    text = argo("""\
        templates:
        - {name: a, metadata: {annotations: {pillion.dev/priority: 'normal', pillion.dev/share: '0.5'},
            labels: {pillion.dev/managed: 'true'}}, priorityClassName: pillion-normal, container: {image: x}}
        """)
    assert compiled(text).text is text


def test_canonical_spelling_of_every_value():
    before = {"share": "500m", "limit": "0.750", "memory": "08.0Gi", "priority": "high", "max-slowdown": "1.50%",
              "max-stall": "2000us", "on-preempt": "wait", "container": "main"}  # fmt: skip
    after = {**before, "share": "0.5", "limit": "0.75", "memory": "8Gi", "max-slowdown": "1.5%", "max-stall": "2ms"}
    lines = "".join(f'        pillion.dev/{name}: "{value}"\n' for name, value in before.items())
    text = argo(f"templates:\n- name: a\n  metadata:\n    annotations:\n{lines}  container: {{image: x}}\n")
    (template,) = yaml.safe_load(compiled(text).text)["spec"]["templates"]
    assert template["metadata"]["annotations"] == {f"pillion.dev/{name}": value for name, value in after.items()}


def test_a_parameter_stays_and_leaves_the_priority_class_to_admission():
    text = argo("""\
        templates:
        - name: a
          inputs: {parameters: [{name: tier}]}
          metadata:
            annotations: {pillion.dev/share: "{{inputs.parameters.share}}", pillion.dev/priority: "{{inputs.parameters.tier}}"}
            labels: {pillion.dev/managed: "true"}
          container: {image: x}
        """)
    assert compiled(text).text is text


def test_a_class_of_another_tier_of_ours_is_corrected_and_others_stay_with_a_warning():
    template = "templates:\n- name: a\n  priorityClassName: {}\n  metadata: {{annotations: {{pillion.dev/share: '0.5'}}}}\n  container: {{image: x}}\n"
    (fixed,) = yaml.safe_load(compiled(argo(template.format("pillion-low"))).text)["spec"]["templates"]
    assert fixed["priorityClassName"] == "pillion-normal"
    result = compiled(argo(template.format("batch")))
    (kept,) = yaml.safe_load(result.text)["spec"]["templates"]
    assert kept["priorityClassName"] == "batch"
    assert [(f.severity, f.problem.code, f.position.line) for f in result.findings] == [
        ("warning", "other-priority-class", 7)
    ]


EVICTED = (
    "  metadata: {annotations: {pillion.dev/share: '0.5', pillion.dev/on-preempt: evict}}\n  container: {image: x}\n"
)


@pytest.mark.parametrize(
    ("own", "warned"),
    [
        ("{limit: 2}", ["retry-policy"]),
        ("{limit: 2, retryPolicy: OnError}", ["retry-policy"]),
        ("{limit: 0, retryPolicy: Always}", ["retry-policy"]),
        ("{limit: 2, retryPolicy: Always}", []),
        ("{limit: 2, expression: 'true'}", []),
    ],
)
def test_the_authors_own_retries_stay_with_a_warning_where_they_do_not_retry_a_preempted_step(own, warned):
    result = compiled(argo(f"templates:\n- name: a\n  retryStrategy: {own}\n{EVICTED}"))
    (template,) = yaml.safe_load(result.text)["spec"]["templates"]
    assert template["retryStrategy"] == yaml.safe_load(own)
    assert [finding.problem.code for finding in result.findings] == warned


@pytest.mark.parametrize(
    ("default", "added"),
    [("{limit: 9}", True), ("{limit: 9, retryPolicy: OnError}", True), ("{limit: 9, retryPolicy: Always}", False)],
)
@pytest.mark.parametrize("place", ["retryStrategy: {}", "templateDefaults: {{retryStrategy: {}}}"])
def test_a_workflows_retries_serve_if_they_retry_a_preempted_step(default, added, place):
    result = compiled(argo(f"{place.format(default)}\ntemplates:\n- name: a\n{EVICTED}"))
    (template,) = yaml.safe_load(result.text)["spec"]["templates"]
    assert template.get("retryStrategy") == ({"limit": "5", "retryPolicy": "Always"} if added else None)


def test_a_workflows_policy_for_all_of_its_pods_is_completed_where_it_stands():
    before = argo("""\
        podMetadata:
          annotations: {pillion.dev/priority: low, pillion.dev/memory: 2Gi, pillion.dev/on-preempt: evict}
        templates:
          - name: main
            steps: [[{name: a, template: train}]]
          - name: train
            container: {image: x}
          - name: bigger
            metadata: {annotations: {pillion.dev/memory: "4.0Gi"}}
            container: {image: x}
        """)
    spec = yaml.safe_load(compiled(before).text)["spec"]
    assert spec["podMetadata"]["labels"] == {"pillion.dev/managed": "true"}
    assert spec["podPriorityClassName"] == "pillion-low"
    retry = {"limit": "5", "retryPolicy": "Always"}
    assert spec["templates"] == [
        {"name": "main", "steps": [[{"name": "a", "template": "train"}]]},
        {"name": "train", "container": {"image": "x"}, "retryStrategy": retry},
        {
            "name": "bigger",
            "metadata": {"annotations": {"pillion.dev/memory": "4Gi"}},
            "container": {"image": "x"},
            "priorityClassName": "pillion-low",
            "retryStrategy": retry,
        },
    ]


def test_a_workflow_that_says_only_a_priority_leaves_steps_without_a_share_alone():
    before = argo("""\
        templateDefaults:
          metadata: {annotations: {pillion.dev/priority: high}}
        templates:
          - name: plain
            container: {image: x}
          - name: sharing
            metadata: {annotations: {pillion.dev/share: "0.5"}}
            container: {image: x}
        """)
    spec = yaml.safe_load(compiled(before).text)["spec"]
    assert spec["templateDefaults"] == {"metadata": {"annotations": {"pillion.dev/priority": "high"}}}
    assert spec["templates"] == [
        {"name": "plain", "container": {"image": "x"}},
        {
            "name": "sharing",
            "metadata": {
                "annotations": {"pillion.dev/share": "0.5"},
                "labels": {"pillion.dev/managed": "true"},
            },
            "container": {"image": "x"},
            "priorityClassName": "pillion-high",
        },
    ]


def test_pod_templates_of_kubernetes_get_label_and_class_and_keep_their_own_retries():
    before = textwrap.dedent("""\
        apiVersion: batch/v1
        kind: CronJob
        metadata: {name: nightly}
        spec:
          jobTemplate:
            spec:
              backoffLimit: 3
              template:
                metadata:
                  annotations:
                    pillion.dev/memory: 2Gi
                    pillion.dev/on-preempt: evict
                    pillion.dev/priority: low
                spec:
                  restartPolicy: Never
                  containers: [{name: train, image: x}]
        """)
    after = before.replace("low\n", 'low\n          labels:\n            pillion.dev/managed: "true"\n')
    after += "          priorityClassName: pillion-low\n"
    assert compiled(before).text == after


def test_every_document_of_a_file_is_compiled_and_the_rest_keeps_its_bytes():
    pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {}\n  annotations: {{pillion.dev/share: '0.5'}}\nspec:\n  containers: [{{name: c}}]\n"
    before = (
        "# head\n" + pod.format("a") + "---\n\n# a map\nkind: ConfigMap\ndata: {a:   1}\n...\n---\n" + pod.format("b")
    )
    text = compiled(before).text
    assert [document["kind"] for document in yaml.safe_load_all(text)] == ["Pod", "ConfigMap", "Pod"]
    assert text.startswith("# head\n")
    assert "---\n\n# a map\nkind: ConfigMap\ndata: {a:   1}\n...\n---\n" in text
    assert text.count("priorityClassName: pillion-normal") == 2


def test_two_templates_of_one_name_are_both_compiled():
    template = "- name: a\n  metadata: {annotations: {pillion.dev/share: '0.5'}}\n  container: {image: x}\n"
    assert compiled(argo("templates:\n" + template * 2)).text.count("pillion.dev/managed") == 2


def test_templates_that_refer_to_themselves_are_no_obstacle():
    text = argo("""\
        templates:
        - name: again
          steps: [[{name: a, template: again}]]
        - name: a
          metadata: {annotations: {pillion.dev/share: '0.5'}}
          container: {image: x}
        """)
    assert "pillion-normal" in compiled(text).text


def test_a_byte_order_mark_stays():
    text = "\ufeff" + argo(
        "templates:\n- name: a\n  metadata: {annotations: {pillion.dev/share: '0.5'}}\n  container: {image: x}\n"
    )
    result = compiled(text).text
    assert result.startswith("\ufeffapiVersion")
    assert "pillion-normal" in result


def test_every_mistake_is_reported_at_its_place_and_nothing_is_returned():
    text = argo("""\
        templates:
        - name: main
          metadata: {annotations: {pillion.dev/share: "0.5"}}
          dag: {tasks: []}
        - name: train
          metadata:
            annotations:
              pillion.dev/share: 0.5
              pillion.dev/memry: 8Gi
              pillion.dev/priority: Low
            labels:
              pillion.dev/managed: true
          container: {image: x}
        - name: forgetful
          metadata: {annotations: {pillion.dev/priority: low}}
          container: {image: x}
        - name: greedy
          metadata:
            annotations: {pillion.dev/share: "0.5"}
          container:
            resources:
              limits: {nvidia.com/gpu: 1}
        - name: lost
          metadata: {annotations: {pillion.dev/share: "0.5", pillion.dev/container: side}}
          container: {image: x}
        """)
    assert codes(text) == [
        ("wf.yaml:7:30", "no-pod"),
        ("wf.yaml:12:9", "not-a-string"),
        ("wf.yaml:13:9", "unknown-key"),
        ("wf.yaml:14:9", "priority-value"),
        ("wf.yaml:16:9", "label-value"),
        ("wf.yaml:19:16", "missing-memory"),
        ("wf.yaml:26:18", "whole-gpu"),
        ("wf.yaml:28:56", "unknown-container"),
    ]


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.10gb", "gpu.intel.com/i915"])
@pytest.mark.parametrize("kind", ["limits", "requests"])
def test_a_gpu_of_its_own_and_a_share_contradict_each_other(resource, kind):
    template = "templates:\n- name: a\n  metadata: {{annotations: {{pillion.dev/share: '0.5'}}}}\n  container: {{resources: {{{}: {{{}: {}}}}}}}\n"
    assert codes(argo(template.format(kind, resource, 1))) == [
        ("wf.yaml:8:38" if kind == "limits" else "wf.yaml:8:40", "whole-gpu")
    ]
    assert compiled(argo(template.format(kind, resource, 0))).policies


def test_a_gpu_of_another_containers_own_does_not():
    text = argo("""\
        templates:
        - name: a
          metadata: {annotations: {pillion.dev/share: "0.5"}}
          container: {image: x}
          sidecars: [{name: s, resources: {limits: {nvidia.com/gpu: 1}}}]
        """)
    assert compiled(text).policies


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: [1\nb: 2", "wf.yaml:2:2"),
        ("a:\n\tb: 1\n", "wf.yaml:2:1"),
        ("- a\n- b\n", "wf.yaml:1:1"),
        ("", "wf.yaml:1:1"),
        ("a: " + "[" * 200 + "]" * 200, "wf.yaml:1:"),
        ("a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
            f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)), "wf.yaml:1:1"),
        ("a: &a {b: *a}\n", "wf.yaml:1:1"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_with_a_place(text, place):
    with pytest.raises(ManifestError) as refused:
        compile_text(text, "wf.yaml")
    assert str(refused.value).startswith(place)


def test_keys_that_stand_twice_are_refused_where_something_would_be_changed():
    text = argo(
        "templates:\n- name: a\n  name: b\n  metadata: {annotations: {pillion.dev/share: '0.5'}}\n  container: {image: x}\n"
    )
    assert codes(text) == [("wf.yaml:7:5", "duplicate-key")]
