"""The GPUs of this machine: what they are, and what can be known for certain about who used them.

On the emulated GPU that is everything: its accounts are exact. On a real one NVML says who holds how much memory;
device time is known only from the gates, and what they say is a claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pillion.policy import Tier
from pillion.scheduling.arbiter.terms import RANK
from pillion_node.agent.config import AgentError


class Facts(NamedTuple):
    """One GPU.

    Attributes:
        name: As the driver calls it.
        uuid: Likewise.
        memory_bytes: All of it.
        switch_ns: What a change between processes costs.
        slice_ns: The driver's time slice; 0 where it is not known.
    """

    name: str
    uuid: str
    memory_bytes: int
    switch_ns: int = 50_000
    slice_ns: int = 0


class Account(NamedTuple):
    """What is known for certain about one tenant.

    Attributes:
        device_ns: Device time that it used since it was registered; None where nobody counts it.
        stolen_ns: How long lower tiers kept it waiting.
        memory_bytes: What its processes hold.
    """

    device_ns: int | None = None
    stolen_ns: int = 0
    memory_bytes: int = 0


class Sample(NamedTuple):
    """Accounts by tenant, and the processes that certainly have nothing on the GPU."""

    accounts: dict[str, Account]
    idle: frozenset[int] = frozenset()


class Devices(Protocol):
    """Where the agent learns about GPUs."""

    source: str
    """Where device time comes from, for people."""
    exact: bool
    """Whether `Account.device_ns` is known."""
    slowest_sample_ns: int
    """Samples cost; this often is enough."""

    def facts(self) -> tuple[Facts, ...]:
        """Return the GPUs by index."""

    def sample(self, gpu: int, members: Mapping[int, str], tiers: Mapping[str, Tier]) -> Sample:
        """Return what is known about the tenants of one GPU.

        Args:
            gpu: Its index.
            members: Tenant by process number.
            tiers: Tier by tenant.
        """


class EmulatedDevices:
    """The emulated GPU's own accounts."""

    source = "emulated GPU"
    exact = True
    slowest_sample_ns = 0

    def __init__(self, path: Path) -> None:
        from pillion_node.emulator import Machine  # noqa: PLC0415 - only where it is emulated

        self._machine = Machine.open(path)
        self._before: dict[tuple[int, int], tuple[int, dict[int, int]]] = {}
        self._totals: dict[tuple[int, str], tuple[int, int]] = {}

    def facts(self) -> tuple[Facts, ...]:
        """Return the GPUs by index."""
        found = [self._machine.snapshot(gpu) for gpu in range(self._machine.gpus)]
        return tuple(Facts(d.name, d.uuid, d.memory_bytes, d.switch_ns, d.slice_ns) for d in found)

    def sample(self, gpu: int, members: Mapping[int, str], tiers: Mapping[str, Tier]) -> Sample:
        """Return exact accounts; time of contexts that a device has forgotten stays counted."""
        device = self._machine.snapshot(gpu)
        tenant_of = {context.id: members[context.pid] for context in device.contexts if context.pid in members}
        busy_pids = {context.pid for context in device.contexts if context.live and context.pending_ns}
        for context in device.contexts:
            tenant = tenant_of.get(context.id)
            if tenant is None:
                continue
            rank = RANK[tiers[tenant]]
            stolen = {
                culprit: ns
                for culprit, ns in context.wait_on_ns.items()
                if culprit in tenant_of and RANK[tiers[tenant_of[culprit]]] > rank
            }
            busy_before, stolen_before = self._before.get((gpu, context.id), (0, {}))
            self._before[gpu, context.id] = context.busy_ns, stolen_before | stolen
            used, lost = self._totals.get((gpu, tenant), (0, 0))
            lost += sum(ns - stolen_before.get(culprit, 0) for culprit, ns in stolen.items())
            self._totals[gpu, tenant] = used + context.busy_ns - busy_before, lost
        kept = {context.id for context in device.contexts}
        for key in [key for key in self._before if key[0] == gpu and key[1] not in kept]:
            del self._before[key]
        for total in [total for total in self._totals if total[0] == gpu and total[1] not in tiers]:
            del self._totals[total]
        memory = dict.fromkeys(tiers, 0)
        for process in device.processes:
            if process.pid in members:
                memory[members[process.pid]] += process.memory_bytes
        totals = {tenant: self._totals.get((gpu, tenant), (0, 0)) for tenant in tiers}
        accounts = {tenant: Account(*totals[tenant], memory[tenant]) for tenant in tiers}
        return Sample(accounts, frozenset(members) - busy_pids)


class NvmlDevices:
    """A real GPU: memory by process from NVML, no device time."""

    source = "gates, at most wall time"
    exact = False
    slowest_sample_ns = 1_000_000_000

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        nvml.nvmlInit()
        self._handles = [nvml.nvmlDeviceGetHandleByIndex(gpu) for gpu in range(nvml.nvmlDeviceGetCount())]

    def facts(self) -> tuple[Facts, ...]:
        """Return the GPUs by index."""
        nvml, found = self._nvml, []
        for handle in self._handles:
            memory_bytes = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
            found.append(Facts(str(nvml.nvmlDeviceGetName(handle)), str(nvml.nvmlDeviceGetUUID(handle)), memory_bytes))
        return tuple(found)

    def sample(self, gpu: int, members: Mapping[int, str], tiers: Mapping[str, Tier]) -> Sample:
        """Return memory by tenant."""
        memory = dict.fromkeys(tiers, 0)
        for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handles[gpu]):
            if process.pid in members:
                memory[members[process.pid]] += process.usedGpuMemory or 0
        return Sample({tenant: Account(memory_bytes=held) for tenant, held in memory.items()})


def find_devices(emulated: Path | None) -> Devices:
    """Return this machine's GPUs.

    Args:
        emulated: The emulated machine to use instead of real GPUs.

    Raises:
        AgentError: There is none.
    """
    if emulated is not None:
        from pillion_node.emulator import EmulatorError  # noqa: PLC0415 - only where it is emulated

        try:
            return EmulatedDevices(emulated)
        except EmulatorError as error:
            raise AgentError(str(error)) from error
    try:
        import pynvml  # noqa: PLC0415 - loads NVIDIA's library

        return NvmlDevices(pynvml)
    except ImportError as error:
        raise AgentError("NVML's Python binding is not installed; pip install nvidia-ml-py") from error
    except pynvml.NVMLError as error:
        raise AgentError(
            f"no GPU found: NVML says {error}; python -m pillion_node.emulator create makes an emulated one, "
            "which PILLION_EMULATED_GPU then names"
        ) from error
