"""The agent: one thread, one wait.

Selectors rather than asyncio: there is a single wait, whose end the arbiter sets to the microsecond, and nothing may
run between two looks at the pages.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import select
import selectors
import signal
import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pillion.policy import PolicyError, Tier, read, resolve
from pillion_node.agent import identity
from pillion_node.agent.claims import ClaimsReader
from pillion_node.agent.config import NODE_DIRECTORY, AgentError, Config, prepare_directory
from pillion_node.agent.control import ControlServer
from pillion_node.agent.devices import Devices
from pillion_node.agent.gates import GateServer
from pillion_node.agent.group import Group
from pillion_node.agent.identity import Peer, Pod, Process
from pillion_node.agent.log import Log
from pillion_node.agent.registry import Registry, Tenant
from pillion_node.agent.share import SharedGpu
from pillion_node.agent.status import describe
from pillion_node.pages import Layout

_LONGEST_SOCKET_PATH = 107
_SWEEP_NS = 100_000_000


def _take_lock(path: Path) -> int:
    """Return a descriptor that holds the directory's lock.

    Raises:
        AgentError: Another agent has it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise AgentError(
            f"an agent already runs in {path.parent} (process {holder or 'unknown'}); "
            "use it, end it, or choose another directory"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _raise_descriptor_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Agent:
    """The node agent of one directory.

    Args:
        config: Its settings.
        devices: The GPUs.
        log: Where events go.
        clock: Monotonic nanoseconds, on the clock that gates read.

    Raises:
        AgentError: Another agent runs there, or the directory is not fit.
    """

    def __init__(
        self, config: Config, devices: Devices, log: Log, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        for path in (config.gate_socket, config.control_socket):
            if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH:
                raise AgentError(
                    f"{path} is too long for a socket's path, {_LONGEST_SOCKET_PATH} bytes; choose a shorter directory"
                )
        prepare_directory(config.directory)
        self._lock = _take_lock(config.lock)
        if config.directory == NODE_DIRECTORY:
            config.directory.chmod(0o755)  # gates of all users join there
        _raise_descriptor_limit()
        self._config, self._devices, self._log, self._clock = config, devices, log, clock
        self._layout = Layout(config.gate_library)
        self._reader = ClaimsReader(self._layout)
        self._selector = selectors.EpollSelector()
        self._registry = Registry(config.tenants)
        self._gpus = [SharedGpu(k, facts, config, devices, log) for k, facts in enumerate(devices.facts())]
        self._owners: dict[str, int] = {}
        self._serial = 0
        self._beat_ns = self._sweep_ns = self._idle_since_ns = self._started_ns = clock()
        self._ending = False
        self._adopt()
        for stale in (config.gate_socket, config.control_socket):
            stale.unlink(missing_ok=True)  # the lock is ours: nobody listens there
        self._bell, self._ringer = socket.socketpair()
        for end in (self._bell, self._ringer):
            end.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ, self._rung)
        self._control = ControlServer(config, self._selector, self._answer, log)
        self._gates = GateServer(
            config, self._layout, self._selector, self._registry, self._gpu_of, self._may_end, log
        )  # fmt: skip
        log("started", pid=os.getpid(), directory=config.directory, gpus=len(self._gpus), device_time=devices.source)

    # -- tenants

    def _gpu_of(self, tenant: Tenant) -> SharedGpu:
        return self._gpus[tenant.gpu]

    def _adopt(self) -> None:
        for name in self._registry.load():
            self._log("tenant-dropped", file=name)
        now_ns = self._clock()
        for tenant in list(self._registry):
            if tenant.gpu >= len(self._gpus):
                self._registry.remove(tenant.id)
                continue
            self._settle(tenant, now_ns)
            self._gpu_of(tenant).adopting_until_ns = now_ns + self._config.adoption_ns
            self._log("tenant-adopted", tenant=tenant.id, gpu=tenant.gpu)

    def _settle(self, tenant: Tenant, now_ns: int) -> None:
        self._gpu_of(tenant).add(Group(self._layout, self._reader, tenant, now_ns))
        if isinstance(tenant.owner, Process):
            with contextlib.suppress(OSError):  # its owner has ended already: it stays for as long as it has processes
                pidfd = self._owners[tenant.id] = os.pidfd_open(tenant.owner.pid)
                self._selector.register(pidfd, selectors.EVENT_READ, partial(self._owner_ended, tenant))

    def _owner_ended(self, tenant: Tenant, now_ns: int) -> None:
        del now_ns
        self._release_owner(tenant)
        self._may_end(tenant)

    def _release_owner(self, tenant: Tenant) -> None:
        pidfd = self._owners.pop(tenant.id, None)
        if pidfd is not None:
            self._selector.unregister(pidfd)
            os.close(pidfd)

    def _may_end(self, tenant: Tenant) -> None:
        """End a tenant that has neither its owner nor a process; a pod's tenant is ended by whoever registered it."""
        group = self._gpu_of(tenant).groups.get(tenant.id)
        ownerless = tenant.id not in self._owners and not isinstance(tenant.owner, Pod)
        if group is not None and not group.members and ownerless:
            self._end(tenant)

    def _end(self, tenant: Tenant) -> None:
        gpu = self._gpu_of(tenant)
        self._gates.end_tenant(gpu.groups[tenant.id])
        gpu.remove(tenant.id)
        self._release_owner(tenant)
        self._registry.remove(tenant.id)
        self._idle_since_ns = self._clock()
        self._log("tenant-ended", tenant=tenant.id)

    # -- requests

    def _answer(self, request: Mapping[str, Any], peer: Peer) -> dict[str, Any]:
        operation = request.get("op")
        if operation == "status":
            return {"status": self.status()}
        if operation == "register":
            return self._register(request, peer)
        if operation == "unregister":
            tenant = self._registry.get(str(request.get("tenant")))
            if tenant is None:
                raise AgentError(f"no tenant is called {request.get('tenant')!r}")
            self._end(tenant)
            return {}
        raise AgentError(f"op is {operation!r}; it is one of status, register, unregister")

    def _register(self, request: Mapping[str, Any], peer: Peer) -> dict[str, Any]:
        gpu_index, annotations, name = request.get("gpu", 0), request.get("policy"), request.get("name", "")
        if not isinstance(gpu_index, int) or not 0 <= gpu_index < len(self._gpus):
            raise AgentError(f"gpu is {gpu_index!r}; this machine has {len(self._gpus)}, counted from 0")
        if not isinstance(annotations, dict) or not isinstance(name, str):
            raise AgentError("register needs a policy, as annotations, and may have a name")
        try:
            policy = resolve(read(annotations))
        except PolicyError as error:
            raise AgentError(str(error)) from error
        owner = self._owner(request, peer)
        known = self._registry.owned_by(owner)
        if known is not None:
            if (known.policy, known.gpu) != (policy, gpu_index):
                raise AgentError(f"{owner} is tenant {known.id} already, on other terms")
            return {"tenant": known.id, "gpu": known.gpu, "quota_bytes": known.quota_bytes}
        gpu = self._gpus[gpu_index]
        whole = gpu.facts.memory_bytes
        quota = policy.memory.size_bytes if policy.memory else whole * (policy.share_milli or 0) // 1000
        _check_room(gpu, policy.share_milli if policy.tier is not Tier.LOW else None, quota)
        tenant = Tenant(self._new_id(), name[:80], gpu_index, policy, owner, quota)
        problem = self._registry.add(tenant)
        if problem is not None:
            self._log("tenant-not-written", tenant=tenant.id, reason=str(problem))
        self._settle(tenant, self._clock())
        self._log("tenant-registered", tenant=tenant.id, name=tenant.name, gpu=gpu_index, policy=annotations)
        return {"tenant": tenant.id, "gpu": gpu_index, "quota_bytes": quota}

    def _new_id(self) -> str:
        while True:
            self._serial += 1
            name = f"{os.getpid()}-{self._serial}"
            if self._registry.get(name) is None:  # a former agent may have had this process number
                return name

    @staticmethod
    def _owner(request: Mapping[str, Any], peer: Peer) -> Process | Pod:
        if "pod" in request:
            container = request.get("container", "")
            if not isinstance(request["pod"], str) or not isinstance(container, str):
                raise AgentError("a pod is named by its UID, and its container by its ID")
            return Pod(request["pod"], container)
        owner = identity.process(peer.pid)
        if owner is None:
            raise AgentError("the process that asks has ended")
        return owner

    def status(self) -> dict[str, Any]:
        """Return what the status request answers."""
        now_ns = self._clock()
        return {
            "pid": os.getpid(),
            "directory": str(self._config.directory),
            "uptime_s": round((now_ns - self._started_ns) / 1e9, 3),
            "device_time": self._devices.source,
            "emulated": self._devices.exact,
            "gates": self._gates.status(),
            "log_lines_lost": self._log.lost,
            "gpus": [describe(gpu, now_ns) for gpu in self._gpus],
        }

    # -- the loop

    def _rung(self, now_ns: int) -> None:
        del now_ns
        with contextlib.suppress(BlockingIOError):
            self._bell.recv(64)

    def stop(self) -> None:
        """End the loop; from any thread, or a signal's handler."""
        self._ending = True
        # Full: it is being woken. Closed: the loop saw the flag first, and there is nothing left to wake.
        with contextlib.suppress(OSError):
            self._ringer.send(b"\0")

    def stop_on_signals(self) -> None:
        """End the loop when the process is asked to end. For the main thread."""
        signal.set_wakeup_fd(self._ringer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())
        # Who started this process may have had them blocked, as `pillion exec` has.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})

    def run(self) -> None:
        """Serve until stopped, or until there has been nobody to serve for long enough."""
        try:
            while not self._ending:
                self._wait(self._round(self._clock()))
        finally:
            self.close()

    def _round(self, now_ns: int) -> int:
        """Do everything that is due; when to come back."""
        if now_ns >= self._beat_ns:
            self._beat_ns = now_ns + self._config.heartbeat_ns
            for gpu in self._gpus:
                for group in gpu.groups.values():
                    group.beat(now_ns)
        if now_ns >= self._sweep_ns:
            self._sweep_ns = now_ns + _SWEEP_NS
            self._gates.sweep(now_ns)
            self._end_if_idle(now_ns)
        for gpu in self._gpus:
            if now_ns >= gpu.due_ns:
                gpu.turn(now_ns)
        return min(self._beat_ns, self._sweep_ns, *(gpu.due_ns for gpu in self._gpus))

    def _end_if_idle(self, now_ns: int) -> None:
        if len(self._registry):
            self._idle_since_ns = now_ns
        elif self._config.idle_exit_ns and now_ns - self._idle_since_ns > self._config.idle_exit_ns:
            self._log("idle")
            self._ending = True

    def _wait(self, until_ns: int) -> None:
        wait_s = max(0, until_ns - self._clock()) / 1e9
        # epoll counts in milliseconds, select in microseconds; a selector is itself something to select on.
        if wait_s:
            select.select([self._selector.fileno()], [], [], wait_s)
        now_ns = self._clock()
        for key, _ in self._selector.select(0):
            key.data(now_ns)

    def close(self) -> None:
        """Let go of everything; tenants stay written down, for the next agent."""
        self._gates.close()
        self._control.close()
        for gpu in self._gpus:
            for group in list(gpu.groups.values()):
                group.close()
        for pidfd in self._owners.values():
            os.close(pidfd)
        for path in (self._config.gate_socket, self._config.control_socket):
            path.unlink(missing_ok=True)
        self._selector.close()
        self._bell.close()
        self._ringer.close()
        self._log("ended")
        os.close(self._lock)


def _check_room(gpu: SharedGpu, share_milli: int | None, quota_bytes: int) -> None:
    """Refuse what could not be kept: guarantees beyond the whole, or more memory than there is.

    Raises:
        AgentError: It says what is left.
    """
    tenants = [group.tenant for group in gpu.groups.values()]
    promised = sum(t.policy.share_milli or 0 for t in tenants if t.policy.tier is not Tier.LOW)
    if share_milli is not None and promised + share_milli > 1000:
        raise AgentError(
            f"GPU {gpu.index} has {(1000 - promised) / 1000:g} of its time left to guarantee, the step asks for "
            f"{share_milli / 1000:g}; ask for less, wait, use another --gpu, or make it --priority low"
        )
    left = gpu.facts.memory_bytes - sum(tenant.quota_bytes for tenant in tenants)
    if quota_bytes > left:
        raise AgentError(
            f"GPU {gpu.index} has {left / 2**20:.0f}Mi of its memory left, the step asks for "
            f"{quota_bytes / 2**20:.0f}Mi; ask for less, wait, or use another --gpu"
        )
