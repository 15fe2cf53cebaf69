"""The socket at which gates join: HELLO, WELCOME, MAPPED, and nothing else. docs/gate.md has the protocol.

Nothing that arrives here is believed. A connection may say one HELLO and one MAPPED; anything else ends it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from pillion_node import pages
from pillion_node.agent import identity
from pillion_node.agent.config import Config
from pillion_node.agent.duty import NO_DUTY
from pillion_node.agent.group import Group
from pillion_node.agent.identity import Peer, Process
from pillion_node.agent.log import Log
from pillion_node.agent.member import Member
from pillion_node.agent.registry import Registry, Tenant
from pillion_node.agent.share import SharedGpu
from pillion_node.pages import GateTier, Kind, Layout, MessageError, Refusal

_ACCEPTS_AT_A_TIME = 64
_MOST_STRANGERS = 1024
_FREE_JOINS = 10  # of one process, before they are spaced out
_AWAY_NS = 2_000_000_000  # whose gate hung up keeps its place for so long
_JOINS_KEPT = 8192


class _Caller:
    """A connection whose process has not been let in."""

    def __init__(self, connection: socket.socket, peer: Peer, since_ns: int) -> None:
        self.connection, self.peer, self.since_ns = connection, peer, since_ns
        self.heard = False
        self.brought = -1


class _Joins(NamedTuple):
    left: int
    last_ns: int


class GateServer:
    """Lets processes in and notices when they go.

    Args:
        gpu_of: Returns a tenant's GPU.
        on_empty: Called with a tenant that has lost its last process.
    """

    def __init__(
        self,
        config: Config,
        layout: Layout,
        selector: selectors.BaseSelector,
        registry: Registry,
        gpu_of: Callable[[Tenant], SharedGpu],
        on_empty: Callable[[Tenant], None],
        log: Log,
    ) -> None:
        self._config, self._layout, self._selector, self._log = config, layout, selector, log
        self._registry, self._gpu_of, self._on_empty = registry, gpu_of, on_empty
        self._callers: dict[socket.socket, _Caller] = {}
        self._members: dict[int, tuple[Member, Group]] = {}
        self._away: list[tuple[int, Member, Group]] = []
        self._joins: dict[int, _Joins] = {}
        self._deaf_until_ns = 0
        self.refused: dict[str, int] = {}
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        self.socket.bind(str(config.gate_socket))
        config.gate_socket.chmod(0o666)  # who may reach it, the directory decides
        self.socket.listen(512)
        selector.register(self.socket, selectors.EVENT_READ, self._accept)

    def __len__(self) -> int:
        return len(self._members)

    def _refuse(self, caller: _Caller, why: str, reason: Refusal | None = None, detail: str = "") -> None:
        self.refused[why] = self.refused.get(why, 0) + 1
        if reason is not None:
            with contextlib.suppress(OSError):
                pages.send(caller.connection, self._layout.pack(Kind.REFUSED, reason=reason))
        if self.refused[why] & (self.refused[why] - 1) == 0:  # a flood makes few lines
            self._log("refused", why=why, pid=caller.peer.pid, uid=caller.peer.uid, times=self.refused[why],
                      detail=detail)  # fmt: skip
        self._forget(caller)

    def _forget(self, caller: _Caller) -> None:
        if self._callers.pop(caller.connection, None) is not None:
            self._selector.unregister(caller.connection)
        caller.connection.close()
        if caller.brought >= 0:
            os.close(caller.brought)
            caller.brought = -1

    # -- newcomers

    def _accept(self, now_ns: int) -> None:
        for _ in range(_ACCEPTS_AT_A_TIME):
            try:
                connection, _ = self.socket.accept()
            except BlockingIOError:
                return
            except OSError as error:  # out of descriptors: those who wait stay in the queue for a while
                self._log("cannot-accept", reason=str(error))
                self._selector.unregister(self.socket)
                self._deaf_until_ns = now_ns + self._config.heartbeat_ns
                return
            connection.setblocking(False)
            caller = _Caller(connection, identity.peer_of(connection), now_ns)
            if len(self._callers) >= _MOST_STRANGERS or not self._may_join(caller.peer.pid, now_ns):
                self._refuse(caller, "flood")
                continue
            self._callers[connection] = caller
            self._selector.register(connection, selectors.EVENT_READ, partial(self._hear, caller))

    def _may_join(self, pid: int, now_ns: int) -> bool:
        joins = self._joins.get(pid, _Joins(_FREE_JOINS, now_ns))
        earned = (now_ns - joins.last_ns) // self._config.slow_join_ns
        left = min(_FREE_JOINS, joins.left + earned)
        if len(self._joins) > _JOINS_KEPT:
            self._joins.clear()
        self._joins[pid] = _Joins(max(0, left - 1), now_ns if earned or pid not in self._joins else joins.last_ns)
        return left > 0

    def _hear(self, caller: _Caller, now_ns: int) -> None:
        if caller.connection not in self._callers:
            return  # an earlier event of this round ended it
        try:
            data, descriptors = pages.receive(caller.connection)
        except BlockingIOError:
            return
        except OSError:
            self._forget(caller)
            return
        try:
            if not data:
                self._forget(caller)
                return
            hello = self._hello(caller, data, descriptors)
            if hello is None:
                return
            caller.heard = True
            caller.brought = descriptors.pop() if descriptors else -1
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._decide(caller, now_ns)

    def _hello(self, caller: _Caller, data: bytes, descriptors: list[int]) -> dict[str, int] | None:
        try:
            hello = self._layout.unpack(data)
        except MessageError as error:
            self._refuse(caller, "not a message", detail=str(error))
            return None
        if hello["kind"] != Kind.HELLO or caller.heard or len(descriptors) > 1:
            self._refuse(caller, "out of turn")
            return None
        if hello["version"] != pages.PROTOCOL:
            self._refuse(caller, "another version", Refusal.VERSION, detail=f"protocol {hello['version']}")
            return None
        return hello

    def tenant_of(self, pid: int) -> Tenant | None:
        """Return whose process this is: its pod's, or the nearest ancestor's that is a tenant's owner or member."""
        pod = identity.pod_of(pid)
        if pod is not None and (tenant := self._registry.of_pod(pod)) is not None:
            return tenant
        for ancestor in identity.ancestry(pid):
            tenant = self._registry.owned_by(ancestor)
            if tenant is not None:
                return tenant
            known = self._members.get(ancestor.pid)
            if known is not None and known[0].process == ancestor:
                return known[1].tenant
        return None

    def _decide(self, caller: _Caller, now_ns: int) -> None:
        process = identity.process(caller.peer.pid) if caller.peer.pid > 0 else None
        tenant = self.tenant_of(process.pid) if process is not None else None
        if process is None or tenant is None:
            self._refuse(caller, "unknown process", Refusal.UNKNOWN)
            return
        gpu = self._gpu_of(tenant)
        group = gpu.groups[tenant.id]
        if group.tier is not GateTier.HIGH and gpu.awaits_high(now_ns):
            return  # `sweep` comes back to it
        if len(self._members) >= self._config.most_members:
            self._refuse(caller, "agent full", Refusal.FULL)
            return
        try:
            pidfd = identity.pidfd_of(caller.connection, caller.peer)
        except OSError:
            self._forget(caller)  # it has ended meanwhile
            return
        self._let_in(caller, process, pidfd, gpu, group, now_ns)

    def _let_in(self, caller: _Caller, process: Process, pidfd: int, gpu: SharedGpu, group: Group, now_ns: int) -> None:
        former = group.members.get(process.pid)
        if former is not None:
            self._part(former, gpu)
        adopted = caller.brought >= 0
        try:
            member = group.admit(process, pidfd, caller.connection)
            handed = self._prepare(member, caller, gpu, group, now_ns) if member is not None else None
        except (OSError, MessageError) as error:
            self._turn_away(caller, process, pidfd, group, "no pages", str(error))
            return
        if member is None or handed is None:
            self._turn_away(caller, process, pidfd, group, "tenant full", "")
            return
        self._callers.pop(caller.connection)
        self._selector.modify(caller.connection, selectors.EVENT_READ, partial(self._hear_member, member, group))
        self._selector.register(pidfd, selectors.EVENT_READ, partial(self._ended, member, group))
        self._members[process.pid] = (member, group)
        if not member.say(Kind.WELCOME, *handed, tier=group.tier, slot=member.slot):
            self._ended(member, group, now_ns)
            return
        gpu.joined(group, now_ns)
        if group.tier is not GateTier.HIGH:
            gpu.show_all_to(member)
        elif adopted:
            gpu.show(member)  # its gate has it mapped already
        self._log("joined", tenant=group.tenant.id, gpu=gpu.index, pid=process.pid, slot=member.slot)

    def _turn_away(self, caller: _Caller, process: Process, pidfd: int, group: Group, why: str, detail: str) -> None:
        """Refuse a process that its tenant's group has no room for, or that brought nonsense."""
        found = group.members.get(process.pid)
        self._refuse(caller, why, Refusal.FULL, detail)
        if found is not None:
            found.connection = None
            self._drop_member(found, group)
        if found is None or found.pidfd != pidfd:
            os.close(pidfd)

    def _prepare(self, member: Member, caller: _Caller, gpu: SharedGpu, group: Group, now_ns: int) -> list[int] | None:
        """Make a newcomer's pages ready; the descriptors to hand over, or None if nobody could watch it."""
        duty, facts = gpu.duties().get(group.tenant.id, NO_DUTY), gpu.facts
        group.prepare(member, duty, facts.slice_ns, facts.switch_ns, self._config.stale_after_ns, now_ns)
        member.lease.seal()
        handed = [member.lease.fd, member.client.fd, group.ledger.fd]
        if group.tier is not GateTier.HIGH:
            return handed
        slot = gpu.free_activity_slot()
        if slot is None:
            return None
        if caller.brought >= 0:
            member.activity = pages.adopt_activity(self._layout, caller.brought)
            caller.brought = -1  # the page closes it
            member.activity.seal()
        else:
            member.activity = pages.create_page(self._layout, "activity")
            handed.append(member.activity.fd)
        member.activity_slot = slot
        return handed

    # -- members

    def _hear_member(self, member: Member, group: Group, now_ns: int) -> None:
        connection = member.connection
        if connection is None:
            return
        try:
            data, descriptors = pages.receive(connection)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        for descriptor in descriptors:
            os.close(descriptor)
        if not data:
            self._gone(member, group, now_ns)
            return
        try:
            kind = self._layout.unpack(data)["kind"]
        except MessageError:
            kind = 0
        if kind != Kind.MAPPED or member.mapped or descriptors:
            self.refused["out of turn"] = self.refused.get("out of turn", 0) + 1
            self._gone(member, group, now_ns)
            return
        member.mapped = True
        if member.activity is not None:
            member.activity.seal()
            self._gpu_of(group.tenant).show(member)

    def _part(self, member: Member, gpu: SharedGpu) -> None:
        """Take a process out of everything but its tenant's list."""
        if member.connection is not None:
            self._selector.unregister(member.connection)
            member.hang_up()
            gpu.left(member)
        with contextlib.suppress(KeyError):
            self._selector.unregister(member.pidfd)
        self._members.pop(member.process.pid, None)
        self._away = [entry for entry in self._away if entry[1] is not member]

    def _gone(self, member: Member, group: Group, now_ns: int) -> None:
        """Its gate hung up. It keeps its place for a while: the gate may come back."""
        if member.connection is not None:
            self._selector.unregister(member.connection)
            member.hang_up()
            self._gpu_of(group.tenant).left(member)
            self._away.append((now_ns, member, group))

    def _ended(self, member: Member, group: Group, now_ns: int) -> None:
        """The process has ended, or has stayed away."""
        del now_ns
        if group.members.get(member.process.pid) is not member:
            return  # an earlier event of this round ended it
        self._part(member, self._gpu_of(group.tenant))
        self._joins.pop(member.process.pid, None)
        self._drop_member(member, group)
        self._log("left", tenant=group.tenant.id, pid=member.process.pid)
        if not group.members:
            self._on_empty(group.tenant)

    def _drop_member(self, member: Member, group: Group) -> None:
        member.activity_slot = -1
        group.drop(member)

    def end_tenant(self, group: Group) -> None:
        """Let go of all processes of a tenant."""
        for member in list(group.members.values()):
            self._part(member, self._gpu_of(group.tenant))
            self._drop_member(member, group)

    def sweep(self, now_ns: int) -> None:
        """End strangers that never speak and processes that stay away; let in who waited for high steps."""
        if self._deaf_until_ns and now_ns >= self._deaf_until_ns:
            self._deaf_until_ns = 0
            self._selector.register(self.socket, selectors.EVENT_READ, self._accept)
        for caller in list(self._callers.values()):
            if caller.heard:
                self._decide(caller, now_ns)
            elif now_ns - caller.since_ns > self._config.hello_timeout_ns:
                self._refuse(caller, "never spoke")
        while self._away and now_ns - self._away[0][0] > _AWAY_NS:
            _, member, group = self._away[0]
            self._ended(member, group, now_ns)

    def close(self) -> None:
        """Hang up on everybody, as if the agent had died."""
        for caller in list(self._callers.values()):
            self._forget(caller)
        for member, group in list(self._members.values()):
            self._part(member, self._gpu_of(group.tenant))
        if not self._deaf_until_ns:
            self._selector.unregister(self.socket)
        self.socket.close()

    def status(self) -> dict[str, Any]:
        """Return what a person would want to know about this socket."""
        return {"members": len(self._members), "strangers": len(self._callers), "refused": dict(self.refused)}
