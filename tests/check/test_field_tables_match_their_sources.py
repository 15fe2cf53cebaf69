"""The committed field tables are what the tool makes of the installed object models, and hold together."""

import importlib.util
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from pillion.check.tables import tables

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "plugin" / "pillion" / "check" / "schema"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("generate_schema", ROOT / "tools" / "generate_schema.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("table", "package", "major"), [("argo", "hera", 7), ("kfp", "kfp-kubernetes", 2), ("kubernetes", "kubernetes", 37)]
)
def test_table_is_regenerated_alike(tool, table, package, major):
    try:
        installed = int(version(package).partition(".")[0])
    except PackageNotFoundError:
        installed = 0
    if installed < major:
        pytest.skip(f"{package} is {installed or 'not installed'} here; the table is of {major}")
    assert tool.text_of(tool.TABLES[table]()) == (SCHEMA / f"{table}.json").read_text(encoding="utf-8")


def shapes():
    return [(f"{name}.{field}", shape) for name, fields in tables().types.items() for field, shape in fields.items()]


def test_every_shape_is_known():
    unknown = [
        (field, shape)
        for field, shape in shapes()
        if shape.lstrip("[{") not in tables().types and shape.lstrip("[{") not in set("sbinelqx*")
    ]
    assert unknown == []


def test_every_kind_has_a_type():
    held = [*tables().kinds.values(), *tables().kfp.values()]
    assert [name for name in held if name not in tables().types] == []


@pytest.mark.parametrize(
    ("name", "field", "shape"),
    [
        # Argo 4: https://argo-workflows.readthedocs.io/en/latest/fields/
        ("argo.Template", "container", "k8s.Container"),
        ("argo.Template", "steps", "[[argo.WorkflowStep"),
        ("argo.Template", "annotations", "{s"),
        ("argo.RetryStrategy", "limit", "x"),
        ("argo.Parameter", "value", "*"),
        ("argo.CronWorkflowSpec", "workflowSpec", "argo.WorkflowSpec"),
        ("argo.ScriptTemplate", "source", "s"),
        ("argo.ScriptTemplate", "restartPolicyRules", "[k8s.ContainerRestartRule"),
        # Kubernetes: https://kubernetes.io/docs/reference/kubernetes-api/
        ("k8s.ResourceRequirements", "limits", "{q"),
        ("k8s.ResourceRequirements", "claims", "[k8s.ResourceClaim"),
        ("k8s.HTTPGetAction", "port", "x"),
        ("k8s.PodSpec", "resourceClaims", "[k8s.PodResourceClaim"),
        ("k8s.JobSpec", "backoffLimit", "i"),
        # KFP's protobuf takes both spellings of a field
        ("kfp.KubernetesExecutorConfig", "podMetadata", "kfp.PodMetadata"),
        ("kfp.KubernetesExecutorConfig", "pod_metadata", "kfp.PodMetadata"),
        ("kfp.PodMetadata", "annotations", "{s"),
        ("kfp.PipelineTaskSpec.RetryPolicy", "maxRetryCount", "l"),
    ],
)
def test_facts(name, field, shape):
    assert tables().types[name][field] == shape
