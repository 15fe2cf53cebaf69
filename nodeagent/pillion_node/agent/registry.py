"""Tenants: who is entitled to what on which GPU. Kept in files, so that an agent that starts anew knows them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pillion.policy import Policy, PolicyError, read, resolve, write
from pillion_node.agent import identity
from pillion_node.agent.identity import Pod, Process

_SUFFIX = ".json"


class Tenant(NamedTuple):
    """One tenant.

    Attributes:
        id: Unique, and the name of its file.
        name: For people.
        gpu: Index of the GPU that it shares.
        policy: What it is entitled to.
        owner: The process whose descendants are its processes, or the pod that they are in.
        quota_bytes: GPU memory that its processes may allocate together; 0: no bound is known.
    """

    id: str
    name: str
    gpu: int
    policy: Policy
    owner: Process | Pod
    quota_bytes: int


def _as_json(tenant: Tenant) -> dict[str, Any]:
    kind = "process" if isinstance(tenant.owner, Process) else "pod"
    return {
        "boot": identity.boot_id(),
        "id": tenant.id,
        "name": tenant.name,
        "gpu": tenant.gpu,
        "policy": write(tenant.policy),
        kind: list(tenant.owner),
        "quota_bytes": tenant.quota_bytes,
    }


def _from_json(found: Mapping[str, Any]) -> Tenant:
    owner: Process | Pod = Process(*found["process"]) if "process" in found else Pod(*found["pod"])
    return Tenant(
        str(found["id"]), str(found["name"]), int(found["gpu"]), resolve(read(found["policy"])), owner,
        int(found["quota_bytes"]),
    )  # fmt: skip


class Registry:
    """All tenants of one agent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tenants: dict[str, Tenant] = {}
        self._of_owner: dict[Process | Pod, str] = {}

    def __iter__(self) -> Iterator[Tenant]:
        return iter(self._tenants.values())

    def __len__(self) -> int:
        return len(self._tenants)

    def get(self, tenant_id: str) -> Tenant | None:
        """Return a tenant, or None."""
        return self._tenants.get(tenant_id)

    def owned_by(self, owner: Process | Pod) -> Tenant | None:
        """Return the tenant of an owner, or None."""
        found = self._of_owner.get(owner)
        return self._tenants[found] if found is not None else None

    def of_pod(self, pod: Pod) -> Tenant | None:
        """Return the tenant of a pod's container; one that names no container is the whole pod's."""
        return self.owned_by(pod) or self.owned_by(Pod(pod.uid, ""))

    def add(self, tenant: Tenant) -> OSError | None:
        """Add a tenant.

        Returns:
            Why it could not be written down, so that the next agent will not know it; None if it was.
        """
        self._tenants[tenant.id] = tenant
        self._of_owner[tenant.owner] = tenant.id
        fresh = self._folder / f".{tenant.id}"
        try:
            fresh.write_text(json.dumps(_as_json(tenant)), encoding="utf-8")
            fresh.replace(self._path(tenant.id))
        except OSError as error:
            fresh.unlink(missing_ok=True)
            return error
        return None

    def remove(self, tenant_id: str) -> None:
        """Forget a tenant."""
        tenant = self._tenants.pop(tenant_id)
        self._of_owner.pop(tenant.owner, None)
        self._path(tenant_id).unlink(missing_ok=True)

    def _path(self, tenant_id: str) -> Path:
        return self._folder / f"{tenant_id}{_SUFFIX}"

    def load(self) -> list[str]:
        """Read what a former agent wrote down: tenants whose owner still lives, of this boot.

        Returns:
            Names of files that are not such, which have been removed.
        """
        self._folder.mkdir(mode=0o700, exist_ok=True)
        boot, dropped = identity.boot_id(), []
        for path in sorted(self._folder.iterdir()):
            tenant = _read(path, boot)
            if tenant is None:
                dropped.append(path.name)
                path.unlink()
                continue
            self._tenants[tenant.id] = tenant
            self._of_owner[tenant.owner] = tenant.id
        return dropped


def _read(path: Path, boot: str) -> Tenant | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        tenant = _from_json(found)
    except (OSError, ValueError, KeyError, TypeError, PolicyError):
        return None
    if found.get("boot") != boot or path.name != f"{tenant.id}{_SUFFIX}":
        return None
    if isinstance(tenant.owner, Process) and identity.process(tenant.owner.pid) != tenant.owner:
        return None
    return tenant
