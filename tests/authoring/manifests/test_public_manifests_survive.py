"""Every public example of Argo's and of KFP's, compiled with nothing asked for and with a policy on every step."""

import copy
import hashlib
from collections import Counter
from pathlib import Path

import pytest
import yaml

from pillion.authoring.findings import ManifestError
from pillion.authoring.manifests.compile import compile_text
from pillion.authoring.manifests.document import parse, read_text
from pillion.authoring.manifests.settings import parse_setting
from pillion.authoring.manifests.steps import steps

CORPUS = Path(__file__).parents[4] / "shared" / "corpus"
if not CORPUS.is_dir():
    pytest.skip(f"the public corpus is not at {CORPUS}", allow_module_level=True)

ARGO = sorted((CORPUS / "argo-examples").rglob("*.yaml"))
KFP = sorted((CORPUS / "kfp").rglob("*.yaml"))
KFP_ARGO = sorted((CORPUS / "kfp-argo").rglob("*.yaml"))
OTHERS = sorted([*(CORPUS / "kai").rglob("*.yaml"), *(CORPUS / "hami").rglob("*.yaml")])

POLICY = "share=0.25,memory=2Gi,on-preempt=evict"
ANNOTATIONS = {
    "pillion.dev/memory": "2Gi",
    "pillion.dev/on-preempt": "evict",
    "pillion.dev/priority": "normal",
    "pillion.dev/share": "0.25",
}
LABEL = {"pillion.dev/managed": "true"}
HASH = hashlib.sha256("\n".join(f"{key}={ANNOTATIONS[key]}" for key in sorted(ANNOTATIONS)).encode()).hexdigest()[:16]

# Files with a step that cannot have a policy as it stands, with the reason.
REFUSED = {
    # They ask for a GPU of their own, or for whatever accelerator a run-time parameter names.
    "local_execution_pipeline_with_k8s_only_methods.yaml": {"whole-gpu"},
    "nvidia_gpu_scheduling_check.yaml": {"whole-gpu"},
    "pipeline_with_string_machine_fields_pipeline_input.yaml": {"whole-gpu"},
    "pipeline_with_string_machine_fields_task_output.yaml": {"whole-gpu"},
    # Sets of containers of which none is called main.
    "graph-workflow.yaml": {"which-container"},
    "parallel-workflow.yaml": {"which-container"},
    "sequence-workflow.yaml": {"which-container"},
}
# Snapshots with a field that the newest release of kfp-kubernetes does not know yet.
NEWER_THAN_KFP = {"init_container.yaml"}


def name_of(path):
    return path.name


@pytest.fixture(scope="module")
def report(request):
    """Print how much was tried, however pytest captures."""
    counts = Counter()
    yield counts
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\n  " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))


def data_of(text):
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document is not None]


def compiled(path):
    return compile_text(read_text(path), path.name, [parse_setting(f".*: {POLICY}")])


@pytest.mark.parametrize("path", ARGO + KFP + KFP_ARGO + OTHERS, ids=name_of)
def test_with_nothing_asked_for_the_text_is_the_same_object(path, report):
    text = read_text(path)
    result = compile_text(text, path.name)
    assert result.text is text
    assert result.findings == ()
    report["files unchanged without a policy"] += 1


def templates_of(data):
    """Return an Argo object's templates, those in place of a reference included, as they nest."""
    spec = data.get("spec") or {}
    found = list((spec.get("workflowSpec") or spec).get("templates") or [])
    for template in found:  # grows while it is read
        tasks = (template.get("dag") or {}).get("tasks") or []
        nested = [step for group in template.get("steps") or [] for step in group]
        found += [task["inline"] for task in [*tasks, *nested] if "inline" in task]
    return found


def argo_with_policy(documents):
    """Add the policy with plain dict operations."""
    expected = copy.deepcopy(documents)
    count = 0
    for document in expected:
        for template in templates_of(document) if str(document.get("apiVersion")).startswith("argoproj.io/") else []:
            if not template.keys() & {"container", "script", "containerSet"}:
                continue
            count += 1
            metadata = template.get("metadata") or {}
            metadata["annotations"] = {**(metadata.get("annotations") or {}), **ANNOTATIONS}
            metadata["labels"] = {**(metadata.get("labels") or {}), **LABEL}
            template["metadata"] = metadata
            template.setdefault("priorityClassName", "pillion-normal")
            template.setdefault("retryStrategy", {"limit": "5", "retryPolicy": "Always"})
    return expected, count


@pytest.mark.parametrize("path", ARGO + KFP_ARGO, ids=name_of)
def test_a_policy_on_every_argo_template_changes_the_templates_only(path, report):
    text = read_text(path)
    expected, count = argo_with_policy(data_of(text))
    if (path.name in REFUSED and path in ARGO) or not count:
        with pytest.raises(ManifestError) as refused:
            compiled(path)
        assert {finding.problem.code for finding in refused.value.findings} == REFUSED.get(path.name, {"no-such-step"})
        report["files with no step that can have one"] += 1
        return
    result = compiled(path)
    assert data_of(result.text) == expected
    assert only_adds_lines(text, result.text)
    assert len(result.policies) == count
    report["Argo templates with a policy"] += count
    report["Argo files with a policy"] += 1


def only_adds_lines(before, after):
    rest = iter(after.splitlines())
    return all(line in rest for line in before.splitlines())


def kfp_with_policy(documents):
    """Add the policy with plain dict operations, as KFP's compiler writes it."""
    pipeline, *others = copy.deepcopy(documents)
    platform = others[0] if others else {}
    executors = pipeline["deploymentSpec"]["executors"]
    labels = [label for label, executor in executors.items() if "container" in executor]
    for label in labels:
        executors[label]["container"].setdefault("env", []).append({"name": "PILLION_POLICY_HASH", "value": HASH})
        configs = platform
        for key in ("platforms", "kubernetes", "deploymentSpec", "executors"):
            configs = configs.setdefault(key, {})
        metadata = configs.setdefault(label, {}).setdefault("podMetadata", {})
        metadata.setdefault("annotations", {}).update(ANNOTATIONS)
        metadata.setdefault("labels", {}).update(LABEL)
    components = pipeline.get("components", {})
    running = {name for name, component in components.items() if component.get("executorLabel") in labels}
    for component in [pipeline["root"], *components.values()]:
        for task in component.get("dag", {}).get("tasks", {}).values():
            if task["componentRef"]["name"] in running:
                retry = {"backoffDuration": "0s", "backoffFactor": 2.0, "backoffMaxDuration": "604800s"}
                task.setdefault("retryPolicy", {**retry, "maxRetryCount": 5})
    return [pipeline, platform], len(labels)


@pytest.mark.parametrize("path", KFP, ids=name_of)
def test_a_policy_on_every_kfp_executor_changes_what_kfp_would_change(path, report):
    text = read_text(path)
    if path.name in REFUSED:
        with pytest.raises(ManifestError) as refused:
            compiled(path)
        assert {finding.problem.code for finding in refused.value.findings} == REFUSED[path.name]
        report["files with no step that can have one"] += 1
        return
    expected, count = kfp_with_policy(data_of(text))
    result = compiled(path)
    assert data_of(result.text) == expected
    assert only_adds_lines(text, result.text)
    report["KFP executors with a policy"] += count
    report["KFP files with a policy"] += 1


@pytest.mark.parametrize("path", [path for path in KFP if path.name not in REFUSED], ids=name_of)
def test_kfp_loads_the_result_as_it_loaded_the_original(path, report):
    kfp = pytest.importorskip("kfp")
    kubernetes = pytest.importorskip("kfp.kubernetes")
    json_format = pytest.importorskip("google.protobuf.json_format")
    text, result = read_text(path), compiled(path).text
    try:
        original = kfp.components.load_component_from_text(text)
    except Exception as error:  # noqa: BLE001 - whatever KFP has against its own example, it must have against ours
        with pytest.raises(type(error)):
            kfp.components.load_component_from_text(result)
        report["KFP files that kfp itself refuses"] += 1
    else:
        loaded = kfp.components.load_component_from_text(result)
        assert loaded.name == original.name
        assert loaded.component_spec.inputs == original.component_spec.inputs
        report["KFP files that kfp loads"] += 1
    platform = data_of(result)[1]["platforms"]["kubernetes"]
    for config in platform["deploymentSpec"]["executors"].values():
        known = config
        if path.name in NEWER_THAN_KFP:
            known = {"podMetadata": config["podMetadata"]}
        json_format.ParseDict(known, kubernetes.kubernetes_executor_config_pb2.KubernetesExecutorConfig())


@pytest.mark.parametrize("path", ARGO + KFP + KFP_ARGO, ids=name_of)
def test_compiling_the_result_again_changes_nothing(path):
    if path.name in REFUSED:
        return
    try:
        once = compiled(path).text
    except ManifestError:
        return
    assert compile_text(once, path.name).text is once


def test_the_corpus_is_all_there(report):
    """The counts below mean something only if the files were found."""
    documents = [document for path in ARGO + KFP + KFP_ARGO for document in parse(read_text(path), path.name)]
    assert len(ARGO) >= 140
    assert len(KFP) >= 100
    assert len(KFP_ARGO) >= 80
    report["documents"] += len(documents)
    report["steps"] += len(steps(documents))
