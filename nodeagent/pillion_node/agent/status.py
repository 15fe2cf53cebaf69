"""What the agent says about a GPU and its tenants when asked."""

from __future__ import annotations

from typing import Any

from pillion.policy import write
from pillion_node.agent.group import Group
from pillion_node.agent.share import SharedGpu


def describe(gpu: SharedGpu, now_ns: int) -> dict[str, Any]:
    """Return one GPU and its tenants, as JSON would have them."""
    facts = gpu.facts
    return {
        "index": gpu.index,
        "name": facts.name,
        "uuid": facts.uuid,
        "memory_bytes": facts.memory_bytes,
        "adopting": now_ns < gpu.adopting_until_ns,
        "tenants": [_tenant(group) for group in gpu.groups.values()],
    }


def _tenant(group: Group) -> dict[str, Any]:
    """Return one tenant; what is under `claims` is what its gates say about themselves."""
    tenant = group.tenant
    return {
        "id": tenant.id,
        "name": tenant.name,
        "policy": write(tenant.policy),
        "lease": {"state": group.state.value, "epoch": group.epoch, "open": group.is_open},
        "quota_bytes": tenant.quota_bytes,
        "ledger_bytes": group.ledger_bytes(),
        "memory_bytes": group.account.memory_bytes,
        "device_ns": group.account.device_ns if group.account.device_ns is not None else group.counted_ns,
        "stolen_ns": group.account.stolen_ns,
        "processes": [
            {
                "pid": member.process.pid,
                "present": member.present,
                "busy": member.claims_busy,
                "distrusted": member.distrusted,
                "claims": member.claims._asdict(),
            }
            for member in group.members.values()
        ],
    }
