"""Finding the steps in manifests: every place that describes a pod, whatever kind of object it stands in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pillion.authoring.manifests.document import Document, Path_

Platform = Literal["argo", "kfp", "kubernetes"]

# Where the workflow's or the pod template's description stands, by API group and kind.
_WORKFLOWS: dict[tuple[str, str], Path_] = {
    ("argoproj.io", "Workflow"): ("spec",),
    ("argoproj.io", "WorkflowTemplate"): ("spec",),
    ("argoproj.io", "ClusterWorkflowTemplate"): ("spec",),
    ("argoproj.io", "CronWorkflow"): ("spec", "workflowSpec"),
}
_PODS: dict[tuple[str, str], Path_] = {
    ("", "Pod"): (),
    ("", "PodTemplate"): ("template",),
    ("", "ReplicationController"): ("spec", "template"),
    ("apps", "Deployment"): ("spec", "template"),
    ("apps", "StatefulSet"): ("spec", "template"),
    ("apps", "DaemonSet"): ("spec", "template"),
    ("apps", "ReplicaSet"): ("spec", "template"),
    ("batch", "Job"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
}
# How KFP's pipeline and platform documents are packed into one: its API, its job files, its Kubernetes objects.
_KFP_PACKED: tuple[tuple[Path_, Path_], ...] = (
    (("pipeline_spec",), ("platform_spec",)),
    (("pipelineSpec",), ("platformSpec",)),
    (("spec", "pipelineSpec"), ("spec", "platformSpec")),
)
_KFP_EXECUTORS = ("deploymentSpec", "executors")
_KFP_CONFIGS = ("platforms", "kubernetes", "deploymentSpec", "executors")

_MAIN = "main"
_NO_POD = {
    "dag": "a dag only orders other templates; put the policy on the templates that its tasks name",
    "steps": "a steps template only orders other templates; put the policy on the templates that its steps name",
    "suspend": "a suspend template waits and creates no pod",
    "http": "an http template's request is sent by Argo's agent, in a pod of its own making",
    "plugin": "a plugin template is run by Argo's agent, in a pod of its own making",
    "resource": "a resource template's pod only creates an object; put the policy on the pod template in its manifest",
    "data": "a data template's pod only lists and filters artifacts",
}


@dataclass(frozen=True, eq=False)
class Step:
    """One place that describes a pod, or all pods of a workflow.

    Attributes:
        document: Where it is defined.
        name: What its author calls it: the template, the executor label, the pod or job; may be empty.
        where: The same for messages: `template "train"`, `executor "exec-train"`, `Job "eval"`.
        platform: Whose rules hold.
        root: Path of what it belongs to: the workflow's spec, the pipeline spec, the Kubernetes object.
        path: Path of the template, executor, or pod template itself.
        raw: The data at `path`.
        metadata_document: Where its annotations and labels live. KFP's are in the platform document; None where the
            file has none yet.
        metadata_path: Path of the object that holds `annotations` and `labels`; it need not exist yet.
        makes_pod: Whether a policy here reaches a pod that runs the author's own containers.
        why_no_pod: The reason where it does not, for messages.
        containers: Names of the containers that may hold the GPU.
        shared: Whether this speaks for every pod of its workflow (`podMetadata`, `templateDefaults`) instead of one.
        annotations: As written here; empty if absent.
        labels: Likewise.
        inherited: Annotations that the pod gets from the workflow unless `annotations` has the same key.
        inherited_labels: Likewise for labels.
    """

    document: Document
    name: str
    where: str
    platform: Platform
    root: Path_
    path: Path_
    raw: Mapping[str, Any]
    metadata_document: Document | None
    metadata_path: Path_
    makes_pod: bool = True
    why_no_pod: str = ""
    containers: tuple[str, ...] = ()
    shared: bool = False
    annotations: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Any] = field(default_factory=dict)
    inherited: Mapping[str, Any] = field(default_factory=dict)
    inherited_labels: Mapping[str, Any] = field(default_factory=dict)

    @property
    def effective(self) -> dict[str, Any]:
        """The annotations that the pod gets."""
        return {**self.inherited, **self.annotations}

    @property
    def effective_labels(self) -> dict[str, Any]:
        """The labels that the pod gets."""
        return {**self.inherited_labels, **self.labels}


def grouped(documents: Iterable[Document]) -> Iterator[tuple[Document, ...]]:
    """Yield the documents of a file, those that only make sense together as one group: KFP's pipeline and platform."""
    pipeline: Document | None = None
    for document in documents:
        if pipeline is not None:
            if is_kfp_platform(document.data):
                yield pipeline, document
                pipeline = None
                continue
            yield (pipeline,)
            pipeline = None
        if is_kfp_pipeline(document.data):
            pipeline = document
        else:
            yield (document,)
    if pipeline is not None:
        yield (pipeline,)


def steps(documents: Iterable[Document]) -> list[Step]:
    """Return every step of a file's documents in the order of their definition; kinds that have none are passed over.

    Whatever does not have the shape that its kind demands is passed over too: saying so is the strict check's job.
    """
    return [step for group in grouped(documents) for step in _steps_of(group)]


def is_kfp_pipeline(data: Mapping[str, Any]) -> bool:
    """Whether this is a pipeline in KFP's intermediate representation."""
    return "kind" not in data and isinstance(data.get("pipelineInfo"), dict) and "deploymentSpec" in data


def is_kfp_platform(data: Mapping[str, Any]) -> bool:
    """Whether this is the platform document that may follow a KFP pipeline."""
    return "kind" not in data and isinstance(data.get("platforms"), dict)


def at(data: Any, path: Path_) -> Any:
    """Return what plain data holds at `path`, or None where it holds nothing."""
    for key in path:
        if isinstance(data, dict) and isinstance(key, str):
            data = data.get(key)
        elif isinstance(data, list) and isinstance(key, int) and key < len(data):
            data = data[key]
        else:
            return None
    return data


def _steps_of(group: Sequence[Document]) -> Iterator[Step]:
    document = group[0]
    if is_kfp_pipeline(document.data):
        yield from _kfp(document, (), group[1] if len(group) > 1 else None, ())
        return
    for spec, platform in _KFP_PACKED:
        packed = at(document.data, spec)
        if isinstance(packed, dict) and is_kfp_pipeline(packed):
            yield from _kfp(document, spec, document, platform)
            return
    yield from _object(document, (), document.data, "", "")


def _object(document: Document, path: Path_, data: Any, api_version: str, kind: str) -> Iterator[Step]:
    """Yield the steps of a Kubernetes object; `api_version` and `kind` stand in where a typed list's item has none."""
    if not isinstance(data, dict):
        return
    api_version, kind = _text(data.get("apiVersion")) or api_version, _text(data.get("kind")) or kind
    if kind.endswith("List") and isinstance(data.get("items"), list):
        of_items = (api_version, kind.removesuffix("List")) if kind != "List" else ("", "")
        for index, item in enumerate(data["items"]):
            yield from _object(document, (*path, "items", index), item, *of_items)
        return
    identity = (api_version.rpartition("/")[0], kind)
    if identity in _WORKFLOWS:
        yield from _workflow(document, (*path, *_WORKFLOWS[identity]))
    elif identity in _PODS:
        place = (*path, *_PODS[identity])
        raw = at(document.data, place)
        if isinstance(raw, dict):
            name = _text(at(data, ("metadata", "name"))) or _text(at(data, ("metadata", "generateName")))
            yield Step(
                document, name, f'{kind} "{name}"' if name else kind, "kubernetes", path, place, raw,
                document, (*place, "metadata"),
                containers=_names(at(raw, ("spec", "containers")), at(raw, ("spec", "initContainers"))),
                annotations=_mapping(at(raw, ("metadata", "annotations"))),
                labels=_mapping(at(raw, ("metadata", "labels"))),
            )  # fmt: skip


def _workflow(document: Document, root: Path_) -> Iterator[Step]:
    spec = at(document.data, root)
    if not isinstance(spec, dict):
        return
    inherited: dict[str, Any] = {}
    inherited_labels: dict[str, Any] = {}
    # Argo lays templateDefaults under each template, then the template's metadata over the workflow's podMetadata.
    for name, path, metadata in (
        ("podMetadata", root, "podMetadata"),
        ("templateDefaults", (*root, "templateDefaults"), "metadata"),
    ):
        raw = at(document.data, path)
        if not isinstance(raw, dict) or (path == root and metadata not in raw):
            continue
        annotations = _mapping(at(raw, (metadata, "annotations")))
        labels = _mapping(at(raw, (metadata, "labels")))
        yield Step(
            document, name, name, "argo", root, path, raw, document, (*path, metadata),
            containers=(_MAIN,), shared=True, annotations=annotations, labels=labels,
            inherited=dict(inherited), inherited_labels=dict(inherited_labels),
        )  # fmt: skip
        inherited.update(annotations)
        inherited_labels.update(labels)
    for index, template in enumerate(sequence(spec.get("templates"))):
        path = (*root, "templates", index)
        for place, name, where, raw in _templates(path, template, _text(at(template, ("name",))), 'template "{}"'):
            work = next((kind for kind in _NO_POD if kind in raw), "")
            runs = any(kind in raw for kind in ("container", "script", "containerSet"))
            yield Step(
                document, name, where, "argo", root, place, raw, document, (*place, "metadata"),
                makes_pod=runs or not work, why_no_pod="" if runs else _NO_POD.get(work, ""),
                containers=_argo_containers(raw),
                annotations=_mapping(at(raw, ("metadata", "annotations"))),
                labels=_mapping(at(raw, ("metadata", "labels"))),
                inherited=inherited, inherited_labels=inherited_labels,
            )  # fmt: skip


def _templates(
    path: Path_, template: Any, name: str, label: str
) -> Iterator[tuple[Path_, str, str, Mapping[str, Any]]]:
    """Yield a template and those that stand inside it in place of a reference, as (path, name, where, data)."""
    if not isinstance(template, dict):
        return
    yield path, name, label.format(name), template
    tasks = [((*path, "dag", "tasks", n), task) for n, task in enumerate(sequence(at(template, ("dag", "tasks"))))]
    for outer, group in enumerate(sequence(template.get("steps"))):
        tasks += [((*path, "steps", outer, inner), step) for inner, step in enumerate(sequence(group))]
    for place, task in tasks:
        inline = at(task, ("inline",))
        if inline is not None:
            own = _text(at(task, ("name",)))
            yield from _templates((*place, "inline"), inline, own, f'inline template "{{}}" of "{name}"')


def _argo_containers(template: Mapping[str, Any]) -> tuple[str, ...]:
    of_set = at(template, ("containerSet", "containers"))
    main = _names(of_set) if of_set is not None else (_MAIN,)
    return main + _names(template.get("sidecars"), template.get("initContainers"))


def _kfp(document: Document, root: Path_, platform: Document | None, platform_root: Path_) -> Iterator[Step]:
    executors = at(document.data, (*root, *_KFP_EXECUTORS))
    for label, raw in executors.items() if isinstance(executors, dict) else ():
        if not isinstance(raw, dict):
            continue
        metadata_path = (*platform_root, *_KFP_CONFIGS, label, "podMetadata")
        metadata = at(platform.data, metadata_path) if platform else None
        runs = "container" in raw
        yield Step(
            document, label, f'executor "{label}"', "kfp", root, (*root, *_KFP_EXECUTORS, label), raw,
            platform, metadata_path, makes_pod=runs,
            why_no_pod="" if runs else "an importer only registers an artifact; KFP drops its annotations",
            containers=(_MAIN,) if runs else (),
            annotations=_mapping(at(metadata, ("annotations",))), labels=_mapping(at(metadata, ("labels",))),
        )  # fmt: skip


def _names(*lists: Any) -> tuple[str, ...]:
    return tuple(_text(at(item, ("name",))) for items in lists for item in sequence(items) if isinstance(item, dict))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def sequence(value: Any) -> list[Any]:
    """Return a list as it is, and anything else as an empty one."""
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
