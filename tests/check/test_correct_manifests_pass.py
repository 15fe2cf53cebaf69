"""What is right raises nothing, however unusual."""

import pytest

WORKFLOW = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {{generateName: w-}}
spec:
  entrypoint: main
  templates:
    - name: main
      steps: [[{{name: a, template: a}}]]
    - name: a
{template}
"""

TEMPLATES = {
    "a share from a parameter, one per call": """
      inputs: {parameters: [{name: share}]}
      metadata:
        labels: {pillion.dev/managed: "true"}
        annotations: {pillion.dev/share: "{{inputs.parameters.share}}"}
      container: {image: busybox}""",
    "an expression": """
      metadata:
        labels: {pillion.dev/managed: "true"}
        annotations: {pillion.dev/share: "{{=workflow.parameters.big == 'yes' ? '1' : '0.5'}}"}
      container: {image: busybox}""",
    "a sidecar with the GPU": """
      metadata:
        labels: {pillion.dev/managed: "true"}
        annotations: {pillion.dev/share: "0.5", pillion.dev/container: server}
      container: {image: busybox}
      sidecars: [{name: server, image: busybox}]""",
    "a whole GPU and no policy": """
      container: {image: busybox, resources: {limits: {nvidia.com/gpu: 1}}}""",
    "a whole GPU for the sidecar only": """
      metadata:
        labels: {pillion.dev/managed: "true"}
        annotations: {pillion.dev/share: "0.5"}
      container: {image: busybox}
      sidecars: [{name: server, image: busybox, resources: {limits: {nvidia.com/gpu: 1}}}]""",
    "no whole GPU": """
      metadata:
        labels: {pillion.dev/managed: "true"}
        annotations: {pillion.dev/share: "0.5"}
      container: {image: busybox, resources: {limits: {nvidia.com/gpu: 0}}}""",
    "a set of containers": """
      metadata:
        labels: {pillion.dev/managed: "true"}
        annotations: {pillion.dev/share: "0.5", pillion.dev/container: trainer}
      containerSet: {containers: [{name: main, image: busybox}, {name: trainer, image: busybox}]}""",
    "a set of one container": """
      metadata:
        labels: {pillion.dev/managed: "true"}
        annotations: {pillion.dev/share: "0.5"}
      containerSet: {containers: [{name: trainer, image: busybox}]}""",
    "everything that can be said": """
      priorityClassName: pillion-high
      metadata:
        labels: {pillion.dev/managed: "true"}
        annotations:
          pillion.dev/share: 500m
          pillion.dev/limit: "1"
          pillion.dev/memory: 8Gi
          pillion.dev/priority: high
          pillion.dev/max-slowdown: 0.1%
          pillion.dev/max-stall: 10s
          pillion.dev/container: main
      script: {image: busybox, source: "true"}""",
    "an inline template, filled in with its task": """
      inputs: {parameters: [{name: share}]}
      dag:
        tasks:
          - name: inside
            withItems: [4, 8]
            inline:
              metadata:
                labels: {pillion.dev/managed: "true"}
                annotations: {pillion.dev/share: "{{inputs.parameters.share}}", pillion.dev/memory: "{{item}}Gi"}
              container: {image: busybox}""",
    "a template that calls itself": """
      steps: [[{name: again, template: a, when: "false"}]]""",
    "fields of Argo 4.1": """
      pendingTimeout: 5m
      podResources: {limits: {cpu: 1}}
      resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
      container: {image: busybox, resources: {claims: [{name: gpu}]}}""",
}


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_argo_template(found, template):
    assert found(WORKFLOW.format(template=template.strip("\n"))) == []


def test_anchors_and_merge_keys(found):
    text = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: w}
spec:
  entrypoint: a
  templates:
    - name: a
      metadata: &shared
        labels: {pillion.dev/managed: "true"}
        annotations: &policy {pillion.dev/share: "0.5"}
      container: &run {image: busybox}
    - name: b
      metadata: *shared
      container: {<<: *run, command: ["true"]}
    - name: c
      metadata: {labels: {pillion.dev/managed: "true"}, annotations: {<<: *policy, pillion.dev/share: "0.25"}}
      container: *run
"""
    assert found(text) == []


def test_a_mistake_that_is_repeated_by_alias_is_told_once(found):
    text = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: w}
spec:
  entrypoint: a
  templates:
    - name: a
      container: &run {image: busybox, cmd: ["true"]}
      metadata: &policy
        labels: {pillion.dev/managed: "true"}
        annotations: {pillion.dev/share: "2"}
    - name: b
      metadata: *policy
      container: *run
"""
    assert found(text) == [(8, 40, "unknown-field", "error"), (11, 23, "share-value", "error")]


def test_json(found):
    text = (
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"pillion.dev/managed": "true"},'
        ' "annotations": {"pillion.dev/share": "0.5"}}, "spec": {"containers": [{"name": "main", "image": "busybox"}]}}'
    )
    assert found(text) == []
    assert found(text.replace('"0.5"', '"1.5"')) == [(1, 122, "share-value", "error")]
