"""Write the checker's field tables from the object models that installed packages ship.

    python tools/generate_schema.py argo kfp          # in the development environment (hera, kfp, kfp-kubernetes)
    python tools/generate_schema.py kubernetes        # in the `schema` group's environment; it cannot live beside kfp

A table says which fields a type has and of which shape their values are, and nothing else. Its notation:

    s text   b boolean   i whole number   n number   e enumeration (name or number)   l whole number or digits as text
    q quantity (text or number)   x whole number or text   * anything   [T list of T   {T mapping of text to T
    a name with a dot: another type

Fields that released models lack but released servers accept are in the supplements below, each with its source.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import types
import typing
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

SCHEMA = Path(__file__).parent.parent / "plugin" / "pillion" / "check" / "schema"

Fields = dict[str, str]
Types = dict[str, Fields]

# Nobody writes these; they stand in objects that were read back from a cluster.
NOT_AUTHORED = {"status", "managedFields"}

ARGO_ROOTS = ("Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow", "WorkflowEventBinding")
KUBERNETES_ROOTS = (
    "Pod",
    "PodTemplate",
    "ReplicationController",
    "Job",
    "CronJob",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ReplicaSet",
)

# Argo Workflows 4.1 and its main branch, where hera 7.1's models are of 4.0.5. Numbers are issues of
# github.com/argoproj/argo-workflows; 4.1's features are listed in its docs/new-features.md.
ARGO_SUPPLEMENT: Types = {
    "argo.Artifact": {"description": "s"},  # 12656
    "argo.ArtifactPaths": {"description": "s"},
    "argo.HTTPArtifact": {"saveStreamViaFile": "b"},  # 12656
    "argo.HTTPAuth": {"bearer": "{*"},  # 15778
    "argo.RetryNodeAntiAffinity": {"type": "s"},  # 13969
    "argo.RetryStrategy": {"maxExecutionDuration": "s"},  # 16857
    "argo.S3Artifact": {"addressingStyle": "s", "storageClass": "s"},  # 10851, 13053
    "argo.Template": {
        "pendingTimeout": "s",  # 10341
        "podResources": "k8s.ResourceRequirements",  # 16399
        "resourceClaims": "[k8s.PodResourceClaim",  # 16576
    },
    "argo.WorkflowSpec": {
        "executorPlugins": "[*",  # 15234
        "podResources": "k8s.ResourceRequirements",  # 16399
        "resourceClaims": "[k8s.PodResourceClaim",  # 16576
    },
}
# Fields 19 and 20 of kubernetes_platform/proto/kubernetes_executor_config.proto on github.com/kubeflow/pipelines'
# master, where kfp-kubernetes 2.17.3 ends at 18.
KFP_SUPPLEMENT: Types = {
    "kfp.KubernetesExecutorConfig": {
        "initContainers": "[{*", "init_containers": "[{*", "podResourceClaims": "[{*", "pod_resource_claims": "[{*",
    },
}  # fmt: skip

# Argo's AnyString takes any value and its schema says text (pkg/apis/workflow/v1alpha1/anystring.go).
ARGO_CORRECTIONS = {
    ("argo.Parameter", "default"): "*",
    ("argo.Parameter", "enum"): "[*",
    ("argo.Parameter", "value"): "*",
    ("argo.ValueFrom", "default"): "*",
}

# The client's models call quantities `str`; these are its quantity fields (k8s.io/api, `resource.Quantity`).
QUANTITIES = {
    ("k8s.EmptyDirVolumeSource", "sizeLimit"): "q",
    ("k8s.PodSpec", "overhead"): "{q",
    ("k8s.ResourceFieldSelector", "divisor"): "q",
    ("k8s.ResourceRequirements", "limits"): "{q",
    ("k8s.ResourceRequirements", "requests"): "{q",
    ("k8s.VolumeResourceRequirements", "limits"): "{q",
    ("k8s.VolumeResourceRequirements", "requests"): "{q",
}


def argo() -> dict[str, object]:
    """Return the table of Argo's types, and of the Kubernetes types below them as Argo's own schema has them."""
    models = import_module("hera.workflows.models.io.argoproj.workflow.v1alpha1")
    found: Types = {}
    for root in ARGO_ROOTS:
        _pydantic(getattr(models, root), found)
    _correct(found, ARGO_CORRECTIONS)
    return _table(found, ARGO_SUPPLEMENT, {root: f"argo.{root}" for root in ARGO_ROOTS}, ("hera",))


def _pydantic(model: type, found: Types) -> str:
    name = ("argo." if ".argoproj." in model.__module__ else "k8s.") + model.__name__
    if name in found:
        return name
    found[name] = fields = {}
    for python_name, field in model.model_fields.items():
        written = field.alias or python_name
        fields[written] = "*" if written in NOT_AUTHORED else _annotation(field.annotation, found)
    return name


_PYTHON_SHAPES = {str: "s", bool: "b", int: "i", float: "n", object: "*", typing.Any: "*"}
# Models that stand for one value; a plugin is an object of any shape (pkg/apis/workflow/v1alpha1/plugin_types.go).
_NAMED_SHAPES = {
    "Amount": "n",
    "IntOrString": "x",
    "Item": "*",
    "MicroTime": "s",
    "Plugin": "{*",
    "Quantity": "q",
    "Time": "s",
}


def _annotation(annotation: typing.Any, found: Types) -> str:
    origin = typing.get_origin(annotation)
    arguments = [argument for argument in typing.get_args(annotation) if argument is not type(None)]
    if origin in (types.UnionType, typing.Union, typing.Annotated):
        shape = _annotation(arguments[0], found)
    elif origin is list:
        shape = "[" + _annotation(arguments[0], found)
    elif origin is dict:
        shape = "{" + _annotation(arguments[1], found)
    elif annotation in _PYTHON_SHAPES:
        shape = _PYTHON_SHAPES[annotation]
    elif annotation.__name__ in _NAMED_SHAPES:
        shape = _NAMED_SHAPES[annotation.__name__]
    elif "root" in annotation.model_fields:
        shape = _annotation(annotation.model_fields["root"].annotation, found)
    else:
        shape = _pydantic(annotation, found)
    return shape


def kubernetes() -> dict[str, object]:
    """Return the table of the Kubernetes kinds that hold pods."""
    models = import_module("kubernetes.client.models")
    found: Types = {}
    for root in KUBERNETES_ROOTS:
        _client(f"V1{root}", models, found)
    _correct(found, QUANTITIES)
    return _table(found, {}, {root: f"k8s.{root}" for root in KUBERNETES_ROOTS}, ("kubernetes",))


def _client(name: str, models: types.ModuleType, found: Types) -> str:
    short = "k8s." + re.sub(r"^(Core|Apps|Batch)?V[0-9]+((alpha|beta)[0-9]+)?", "", name)
    if short in found:
        return short
    found[short] = fields = {}
    model = getattr(models, name)
    for python_name, given in model.openapi_types.items():
        written = model.attribute_map[python_name]
        fields[written] = "*" if written in NOT_AUTHORED else _client_shape(given, models, found)
    return short


# Where the client says `object` for one value it is an IntOrString: ports, and the bounds of a rolling update.
_CLIENT_SHAPES = {"str": "s", "bool": "b", "int": "i", "float": "n", "datetime": "s", "object": "x"}


def _client_shape(given: str, models: types.ModuleType, found: Types) -> str:
    if inner := re.fullmatch(r"List\[(.+)\]", given):
        return "[" + _client_shape(inner[1], models, found)
    if inner := re.fullmatch(r"Dict\[str, (.+)\]", given):
        return "{" + _client_shape(inner[1], models, found)
    return _CLIENT_SHAPES.get(given) or _client(given, models, found)


def kfp() -> dict[str, object]:
    """Return the table of KFP's two documents; both spellings of a field, as the protobuf JSON parsers take both."""
    pipeline = import_module("kfp.pipeline_spec.pipeline_spec_pb2")
    platform = import_module("kfp.kubernetes.kubernetes_executor_config_pb2")
    found: Types = {}
    roots = {
        "pipeline": _message(pipeline.PipelineSpec.DESCRIPTOR, found),
        "platform": _message(pipeline.PlatformSpec.DESCRIPTOR, found),
        "deployment": _message(pipeline.PipelineDeploymentConfig.DESCRIPTOR, found),
        "kubernetes": _message(platform.KubernetesExecutorConfig.DESCRIPTOR, found),
    }
    # Both documents declare what they carry there as google.protobuf.Struct; these are what the backend reads it as.
    found[roots["pipeline"]].update(deploymentSpec=roots["deployment"], deployment_spec=roots["deployment"])
    return _table(found, KFP_SUPPLEMENT, roots, ("kfp", "kfp-kubernetes"))


def _message(descriptor: typing.Any, found: Types) -> str:
    name = "kfp." + descriptor.full_name.partition(".")[2]
    if name not in found:
        found[name] = fields = {}
        for field in descriptor.fields:
            shape = _field(field, found)
            fields.update({field.json_name: shape, field.name: shape})
    return name


def _field(field: typing.Any, found: Types) -> str:
    shape = _single(field, found)
    return shape if shape.startswith("{") or not _repeated(field) else "[" + shape


def _repeated(field: typing.Any) -> bool:
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def _single(field: typing.Any, found: Types) -> str:
    if field.enum_type is not None:
        return "e"
    if field.message_type is None:
        return {
            field.CPPTYPE_STRING: "s",
            field.CPPTYPE_BOOL: "b",
            field.CPPTYPE_INT32: "l",
            field.CPPTYPE_INT64: "l",
            field.CPPTYPE_UINT32: "l",
            field.CPPTYPE_UINT64: "l",
            field.CPPTYPE_DOUBLE: "n",
            field.CPPTYPE_FLOAT: "n",
        }[field.cpp_type]
    message = field.message_type
    if message.GetOptions().map_entry:
        return "{" + _single(message.fields_by_name["value"], found)
    if message.full_name.startswith("google.protobuf."):
        return {"Struct": "{*", "Duration": "s", "Timestamp": "s"}.get(message.name, "*")
    return _message(message, found)


def _correct(found: Types, corrections: dict[tuple[str, str], str]) -> None:
    for (type_name, field), shape in corrections.items():
        if field not in found[type_name]:
            sys.exit(f"{type_name}.{field} is not in the installed model any more; take it out of the corrections")
        found[type_name][field] = shape


def _table(found: Types, supplement: Types, roots: Fields, packages: tuple[str, ...]) -> dict[str, object]:
    for name, fields in supplement.items():
        known = found.setdefault(name, {})
        for field, shape in fields.items():
            if field in known:
                sys.exit(f"{name}.{field} is in the installed model now; take it out of the supplement")
            known[field] = shape
    return {
        "generated_from": {package: version(package) for package in packages},
        "roots": roots,
        "types": {name: dict(sorted(fields.items())) for name, fields in sorted(found.items())},
    }


def text_of(table: dict[str, object]) -> str:
    """Write a table with one line per type, so that a change of it can be reviewed."""
    lines = [
        f"{json.dumps(name)}: {json.dumps(fields, separators=(',', ':'))}" for name, fields in table["types"].items()
    ]
    head = {key: table[key] for key in ("generated_from", "roots")}
    return json.dumps(head)[:-1] + ', "types": {\n' + ",\n".join(lines) + "\n}}\n"


TABLES = {"argo": argo, "kubernetes": kubernetes, "kfp": kfp}


def main() -> None:
    """Write the tables that are named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="+", choices=sorted(TABLES))
    for name in parser.parse_args().table:
        (SCHEMA / f"{name}.json").write_text(text_of(TABLES[name]()), encoding="utf-8")


if __name__ == "__main__":
    main()
