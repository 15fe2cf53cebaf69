"""The processes of one tenant that joined: one ledger, one lease for all of them, one report to the arbiter."""

from __future__ import annotations

import socket
from typing import NamedTuple

from pillion.policy import Tier
from pillion.scheduling.arbiter import LeaseState, Report
from pillion.scheduling.arbiter.terms import Grant
from pillion_node import pages
from pillion_node.agent.claims import ClaimsReader
from pillion_node.agent.devices import Account
from pillion_node.agent.duty import PERIOD_NS, Duty
from pillion_node.agent.identity import Process
from pillion_node.agent.member import Member
from pillion_node.agent.registry import Tenant
from pillion_node.pages import GateTier, Layout, State

LEDGER_SLOTS = 510
_STATE = {LeaseState.STOP: State.STOP, LeaseState.DRAIN: State.DRAIN, LeaseState.RUN: State.RUN}
_TIER = {Tier.HIGH: GateTier.HIGH, Tier.NORMAL: GateTier.NORMAL, Tier.LOW: GateTier.LOW}
_UNTRACKED_NS = 50_000_000  # what an open gate let through has left the GPU by then, or the drain counts as ended
_RENEW_BEFORE_NS = 600_000_000  # of a lease that lapses after a second
_BUCKET_NS = 300_000_000
_WHOLE_PPM = 1_000_000


class Care(NamedTuple):
    """What lower tiers owe to the high steps of a GPU, as gates are told.

    Attributes:
        max_slowdown_ppm: The strictest high step's.
        max_stall_ns: Likewise.
    """

    max_slowdown_ppm: int
    max_stall_ns: int


class Group:
    """One tenant's processes.

    Attributes:
        tenant: Whose.
        tier: Its tier as gates count them.
        members: By process number; those whose gate hung up a moment ago too.
        account: What is known for certain about it.
        counted_ns: Device time as its gates say, no faster than time passes.
        is_open: Whether its gates let everything pass.
    """

    def __init__(self, layout: Layout, reader: ClaimsReader, tenant: Tenant, now_ns: int) -> None:
        self.tenant = tenant
        self.tier = _TIER[tenant.policy.tier]
        self.members: dict[int, Member] = {}
        self.account = Account()
        self.counted_ns = 0
        self.is_open = False
        self.epoch = 0
        self.state = LeaseState.STOP
        self._read = reader
        self._layout = layout
        self._ledger: pages.Page | None = None
        self._written: dict[str, int] = {}
        self._looked_ns = now_ns
        self._claimed_ns = 0
        self._revoked_ns = 0

    @property
    def present(self) -> bool:
        """Whether a gate of it is there."""
        return any(member.present for member in self.members.values())

    # -- members

    def admit(self, process: Process, pidfd: int, connection: socket.socket) -> Member | None:
        """Return a member for a process that wants to join, in its old slot if it had one; None if there is no slot."""
        former = self.members.get(process.pid)
        slot = former.slot if former is not None and former.process == process else self._free_slot()
        if slot is None:
            return None
        member = Member(self._layout, process, pidfd, connection, slot)
        if former is not None and slot == former.slot:
            former.close()  # what it holds stays counted: the same process goes on
        elif former is not None:
            self.drop(former)
        self.members[process.pid] = member
        ledger = self.ledger
        ledger["slots"] = max(ledger["slots"], slot + 1)
        return member

    def _free_slot(self) -> int | None:
        taken = {member.slot for member in self.members.values()}
        return next((slot for slot in range(LEDGER_SLOTS) if slot not in taken), None)

    @property
    def ledger(self) -> pages.Page:
        """Where its processes write what they hold; made when first needed."""
        if self._ledger is None:
            self._ledger = pages.create_page(self._layout, "ledger")
        return self._ledger

    def drop(self, member: Member) -> None:
        """Forget a process for good: what it held is free."""
        self.members.pop(member.process.pid, None)
        if self._ledger is not None:
            self._ledger.set_item("bytes", member.slot, 0)
        member.close()

    def close(self) -> None:
        """Let go of everything."""
        for member in list(self.members.values()):
            self.drop(member)
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None

    def ledger_bytes(self) -> int:
        """Return what its processes say they hold, together, at most the quota."""
        if self._ledger is None:
            return 0
        held = sum(self._ledger.item("bytes", member.slot) for member in self.members.values())
        return min(held, self.tenant.quota_bytes or held)

    # -- what the arbiter is told

    def has_news(self) -> bool:
        """Whether any of its gates says something new."""
        found = False
        for member in self.members.values():
            if member.present and member.has_news():
                found = True
        return found

    def look(self, now_ns: int, exact: bool) -> Report:
        """Read what its gates say, and return it as the arbiter wants it."""
        epoch = self.epoch
        in_flight, waiting, behind, device_ns = 0, False, epoch, 0
        high = self.tier is GateTier.HIGH
        busy = False
        for member in self.members.values():
            if not member.present:
                continue
            claims = member.claims = self._read(member.claimed)
            device_ns += claims.device_ns
            if high:
                busy = busy or (member.claims_busy and not member.distrusted)
                continue
            count = member.in_flight()
            if not count and member.untracked() and self.state is LeaseState.DRAIN:
                count = now_ns - self._revoked_ns < _UNTRACKED_NS
            in_flight += count
            waiting = waiting or claims.waiting > 0
            if count:  # who has nothing on the way cannot be inside a submission under an old lease
                behind = min(behind, claims.acknowledged_epoch)
        self._count(device_ns, now_ns)
        used_ns = self.account.device_ns if exact else self.counted_ns or None
        return Report(
            runnable=busy or waiting or self.is_open,
            in_flight=in_flight,
            acknowledged_epoch=behind,
            device_ns=used_ns,
            stolen_ns=self.account.stolen_ns,
            memory_bytes=self.ledger_bytes(),
        )

    def _count(self, claimed_ns: int, now_ns: int) -> None:
        grown_ns = claimed_ns - self._claimed_ns
        self.counted_ns += min(max(grown_ns, 0), max(now_ns - self._looked_ns, 0))
        self._claimed_ns, self._looked_ns = claimed_ns, now_ns

    # -- what its gates are told

    def grant(self, grant: Grant, care: Care | None, now_ns: int) -> None:
        """Write a grant into the pages of all its processes, if that changes anything for them."""
        if grant.state is not self.state and grant.state is LeaseState.DRAIN:
            self._revoked_ns = now_ns
        self.state, self.epoch = grant.state, grant.epoch
        values = {
            "state": _STATE[grant.state],
            "epoch": grant.epoch,
            "in_flight_cap": grant.in_flight_cap,
            "max_slowdown_ppm": care.max_slowdown_ppm if care else 0,
            "budget_ppm": self._budget_ppm(grant, care),
            "max_stall_ns": care.max_stall_ns if care else 0,
        }
        before = self._written
        deadline_ns = before.get("deadline_ns", 0)
        if any(before.get(name) != value for name, value in values.items()) or (
            deadline_ns != grant.deadline_ns
            and (grant.deadline_ns < deadline_ns or deadline_ns < now_ns + _RENEW_BEFORE_NS)
        ):
            self.write(**values, deadline_ns=grant.deadline_ns)

    def _budget_ppm(self, grant: Grant, care: Care | None) -> int:
        """Return each process's part of what may be stolen: all of a tenant's processes spend the tenant's budget."""
        if care is None or not care.max_slowdown_ppm:
            return _WHOLE_PPM
        rate_ppm = care.max_slowdown_ppm if grant.budget_ppm is None else grant.budget_ppm
        part_ppm = min(_WHOLE_PPM, rate_ppm * _WHOLE_PPM // care.max_slowdown_ppm)
        return part_ppm // max(1, sum(1 for member in self.members.values() if member.claims.submissions))

    def write(self, **values: int) -> None:
        """Write fields of the lease into all pages, now and for members to come."""
        if all(self._written.get(name) == value for name, value in values.items()):
            return
        self._written |= values
        for member in self.members.values():
            if member.present:
                member.lease.update(**values)

    def prepare(
        self, member: Member, duty: Duty, slice_ns: int, switch_ns: int, stale_after_ns: int, now_ns: int
    ) -> None:
        """Write a newcomer's whole lease, before it sees the page."""
        fixed = {
            "tier": self.tier,
            "stale_after_ns": stale_after_ns,
            "bucket_ns": _BUCKET_NS,
            "switch_ns": switch_ns,
            "slice_ns": slice_ns,
            "memory_quota_bytes": self.tenant.quota_bytes,
            "duty_ppm": duty.ppm,
            "duty_phase_ppm": duty.phase_ppm,
            "duty_period_ns": PERIOD_NS,
        }
        self._written |= fixed
        member.lease["heartbeat_ns"] = now_ns
        member.lease.update(**self._written)

    def beat(self, now_ns: int) -> None:
        """Tell its gates that the agent lives."""
        for member in self.members.values():
            if member.present:
                member.lease["heartbeat_ns"] = now_ns

    def set_open(self, wanted: bool) -> None:
        """Open or shut all its gates."""
        self.is_open = wanted
        for member in self.members.values():
            if member.present:
                if wanted:
                    member.open()
                else:
                    member.shut()
