"""Compile with KFP's own compiler, and say what a policy changes in what it writes."""

import copy
import hashlib
from typing import NamedTuple

import pytest
import yaml

pytest.importorskip("kfp", reason="the KFP adapter is tested where kfp is installed")

from google.protobuf import json_format
from kfp.compiler import Compiler
from kfp.components import load_component_from_text
from kfp.kubernetes.kubernetes_executor_config_pb2 import KubernetesExecutorConfig


class Compiled(NamedTuple):
    """What `kfp.compiler` wrote: the text, and its two documents."""

    text: str
    pipeline: dict
    platform: dict

    @property
    def executors(self):
        return self.pipeline["deploymentSpec"]["executors"]

    @property
    def configs(self):
        kubernetes = self.platform.get("platforms", {}).get("kubernetes", {})
        return kubernetes.get("deploymentSpec", {}).get("executors", {})

    @property
    def steps(self):
        """What every step runs and its settings, as (container, config), by the names of the tasks that lead to it."""

        def walk(component, path):
            label = component.get("executorLabel")
            if label is not None:
                found[path] = (self.executors[label].get("container"), self.configs.get(label, {}))
            for name, task in component.get("dag", {}).get("tasks", {}).items():
                walk(self.pipeline["components"][task["componentRef"]["name"]], (*path, name))

        found = {}
        walk(self.pipeline["root"], ())
        return found

    def annotations(self, label):
        return self.configs.get(label, {}).get("podMetadata", {}).get("annotations", {})


def read(text, known=lambda config: config):
    """Read compiled text as KFP's backend does: the platform's settings strictly, as far as `known` leaves them."""
    documents = list(yaml.safe_load_all(text))
    load_component_from_text(text)
    compiled = Compiled(text, documents[0], documents[1] if len(documents) > 1 else {})
    for config in compiled.configs.values():
        json_format.ParseDict(known(config), KubernetesExecutorConfig())
    return compiled


@pytest.fixture
def compiled(tmp_path):
    """Compile with plain kfp, and check that the output loads in kfp and parses strictly."""

    def run(component, **reading):
        path = tmp_path / "compiled.yaml"
        Compiler().compile(component, str(path))
        return read(path.read_text(), **reading)

    return run


def hash_of(annotations):
    """Return a policy's hash, worked out from the contract: sorted lines of key=value."""
    text = "\n".join(f"{key}={annotations[key]}" for key in sorted(annotations))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


RETRY = {"backoffDuration": "0s", "backoffFactor": 2.0, "backoffMaxDuration": "604800s"}


def with_policies(plain, policies, retries=None):
    """Return the two documents of `plain` with policies added by hand.

    Args:
        plain: What was compiled without any policy.
        policies: Annotations by executor label.
        retries: Number of retries by executor label.
    """
    pipeline, platform = copy.deepcopy(plain.pipeline), copy.deepcopy(plain.platform)
    for label, annotations in policies.items():
        container = pipeline["deploymentSpec"]["executors"][label]["container"]
        container.setdefault("env", []).append({"name": "PILLION_POLICY_HASH", "value": hash_of(annotations)})
        config = platform
        for key in ("platforms", "kubernetes", "deploymentSpec", "executors", label, "podMetadata"):
            config = config.setdefault(key, {})
        config.setdefault("annotations", {}).update(annotations)
        config.setdefault("labels", {})["pillion.dev/managed"] = "true"
    labels = {name: component.get("executorLabel") for name, component in pipeline["components"].items()}
    for holder in (pipeline["root"], *pipeline["components"].values()):
        for task in holder.get("dag", {}).get("tasks", {}).values():
            count = (retries or {}).get(labels[task["componentRef"]["name"]])
            if count:
                task["retryPolicy"] = {**RETRY, "maxRetryCount": count}
    return pipeline, platform


@pytest.fixture(name="hash_of")
def hash_of_():
    """Work out a policy's hash from the contract."""
    return hash_of


@pytest.fixture
def assert_only_policies_differ(compiled):
    """Compile a pipeline built with and without tags; the two differ by the given policies and by nothing else."""

    def check(plain, tagged, policies, retries=None):
        expected = with_policies(compiled(plain), policies, retries)
        found = compiled(tagged)
        assert (found.pipeline, found.platform) == expected
        return found

    return check
