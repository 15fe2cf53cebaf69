"""One GPU: its tenants' reports to the arbiter, the arbiter's grants into their pages, and who sees whose activity."""

from __future__ import annotations

from pillion.policy import Tier
from pillion.scheduling import arbiter
from pillion.scheduling.arbiter import LeaseState, Report
from pillion_node.agent import duty
from pillion_node.agent.config import Config
from pillion_node.agent.devices import Devices, Facts
from pillion_node.agent.group import Care, Group
from pillion_node.agent.log import Log
from pillion_node.agent.member import Member
from pillion_node.pages import GateTier, Kind

_WHOLE_MILLI = 1000
HIGH_STEPS = 32  # PILLION_HIGH_STEPS: as many as one gate can watch
_RECENT_NS = 100_000_000  # who did something within this may do something again any moment
_LIE_NS = 500_000_000  # a high step that has said "busy" for this long, with nothing on the GPU, is not believed


class SharedGpu:
    """One GPU and the tenants on it.

    Attributes:
        index: Its index.
        facts: What it is.
        groups: By tenant; those with no process too.
        adopting_until_ns: Until then, high steps that a former agent had may still come.
        due_ns: When `turn` is to be called again.
    """

    def __init__(self, index: int, facts: Facts, config: Config, devices: Devices, log: Log) -> None:
        self.index, self.facts = index, facts
        self.groups: dict[str, Group] = {}
        self.adopting_until_ns = 0
        self.due_ns = 0
        self._config, self._devices, self._log = config, devices, log
        self._state = arbiter.State(arbiter.Gpu(facts.memory_bytes, facts.switch_ns))
        self._seated: set[str] = set()
        self._reports: dict[str, Report] = {}
        self._wake_ns = 0
        self._sampled_ns = 0
        self._sample_due_ns = 0
        self._present: list[Group] = []
        self._changed_ns = 0
        self._stale = True
        self._lying_since_ns: dict[int, int] = {}

    # -- tenants and their processes come and go

    def add(self, group: Group) -> None:
        """Add a tenant, with or without processes."""
        self.groups[group.tenant.id] = group
        self.changed()

    def remove(self, tenant_id: str) -> None:
        """Remove a tenant and everything that was held for it."""
        group = self.groups.pop(tenant_id)
        for member in group.members.values():
            self.withdraw(member)
        group.close()
        self._state = self._state.left(tenant_id)
        self._seated.discard(tenant_id)
        self._reports.pop(tenant_id, None)
        self.changed()

    def changed(self) -> None:
        """Look and decide again at once."""
        self._stale, self.due_ns = True, 0

    def divide_duty(self) -> None:
        """Tell everybody what to do if the agent is lost."""
        duties = self.duties()
        for name, group in self.groups.items():
            part = duties.get(name, duty.NO_DUTY)
            group.write(duty_ppm=part.ppm, duty_phase_ppm=part.phase_ppm)

    def duties(self) -> dict[str, duty.Duty]:
        """Return the parts of those who have processes."""
        return duty.share_out((name, group.tenant.policy) for name, group in self.groups.items() if group.present)

    def awaits_high(self, now_ns: int) -> bool:
        """Whether high steps that a former agent had may still be on their way here."""
        return now_ns < self.adopting_until_ns and any(
            group.tenant.policy.tier is Tier.HIGH and not group.present for group in self.groups.values()
        )

    def joined(self, group: Group, now_ns: int) -> None:
        """Take note of a tenant's first or further process."""
        if group.tenant.id not in self._seated:
            self._seated.add(group.tenant.id)
            newcomer = arbiter.Tenant(group.tenant.id, group.tenant.policy, registered_ns=now_ns)
            self._state = self._state.joined(newcomer)
        self.divide_duty()
        self.changed()

    def left(self, member: Member) -> None:
        """Take note that a process's gate is gone."""
        self.withdraw(member)
        self._lying_since_ns.pop(member.process.pid, None)
        self.divide_duty()
        self.changed()

    # -- activity of high steps

    def _high_members(self) -> list[Member]:
        return [m for group in self.groups.values() for m in group.members.values() if m.activity_slot >= 0]

    def _lower_members(self) -> list[Member]:
        return [
            member
            for group in self.groups.values()
            if group.tier is not GateTier.HIGH
            for member in group.members.values()
            if member.present
        ]

    def free_activity_slot(self) -> int | None:
        """Return a number under which lower tiers do not know anybody."""
        taken = {member.activity_slot for member in self._high_members()}
        return next((slot for slot in range(HIGH_STEPS) if slot not in taken), None)

    def show(self, member: Member) -> None:
        """Hand a high process's marks to all lower tiers."""
        for other in self._lower_members():
            self.show_to(other, member)

    def show_all_to(self, member: Member) -> None:
        """Hand the marks of all high processes to a newcomer of a lower tier."""
        for other in self._high_members():
            if not other.distrusted:
                self.show_to(member, other)

    @staticmethod
    def show_to(lower: Member, high: Member) -> None:
        """Hand one high process's marks to one process."""
        if high.activity is not None:
            lower.say(Kind.ACTIVITY, high.activity.fd, slot=high.activity_slot, present=1)

    def withdraw(self, member: Member) -> None:
        """Let lower tiers forget a high process."""
        if member.activity_slot >= 0:
            for other in self._lower_members():
                other.say(Kind.ACTIVITY, slot=member.activity_slot, present=0)
            member.activity_slot = -1

    def _check_marks(self, idle: frozenset[int], now_ns: int) -> None:
        """Hold what high steps say against the GPU's own accounts: who lies would hold lower tiers up for ever."""
        for member in self._high_members():
            pid = member.process.pid
            if not (member.claims_busy and pid in idle):
                self._lying_since_ns.pop(pid, None)
                if member.distrusted:
                    member.distrusted = False
                    self.show(member)
            elif not member.distrusted and now_ns - self._lying_since_ns.setdefault(pid, now_ns) > _LIE_NS:
                member.distrusted = True
                for other in self._lower_members():
                    other.say(Kind.ACTIVITY, slot=member.activity_slot, present=0)
                self._log("activity-distrusted", gpu=self.index, pid=pid)

    # -- the round

    def turn(self, now_ns: int) -> None:
        """Look at everybody's page, decide if that changes anything, and write what was decided."""
        if self.adopting_until_ns and now_ns >= self.adopting_until_ns:
            self.adopting_until_ns, self._stale = 0, True
        if self._stale:
            self._present = [group for group in self.groups.values() if group.present]
            self._set_open()
        if not self._present:
            self._stale, self.due_ns = False, arbiter.NEVER_NS
            return
        if now_ns >= self._sample_due_ns:
            self._sample(now_ns)
        everybody = self._stale or now_ns >= self._wake_ns
        for group in self._present:
            if group.has_news() or everybody or group.state is LeaseState.DRAIN:
                self._look(group, now_ns)
        if self._stale or now_ns >= self._wake_ns:
            self._decide(now_ns)
        poll_ns = self._poll_ns(now_ns)
        # On a common grid, so that one waking serves all GPUs.
        self.due_ns = min(self._wake_ns, (now_ns // poll_ns + 1) * poll_ns)
        self._sample_due_ns = self._sampled_ns + self._sample_every_ns(now_ns)

    def _look(self, group: Group, now_ns: int) -> None:
        report = group.look(now_ns, self._devices.exact)
        before = self._reports.get(group.tenant.id)
        self._reports[group.tenant.id] = report
        if before is None or _differs(before, report, group.epoch):
            self._stale, self._changed_ns = True, now_ns

    def _set_open(self) -> None:
        alone = len(self._present) == 1 and not self.adopting_until_ns
        for group in self._present:
            wanted = alone and group.tenant.policy.limit_milli >= _WHOLE_MILLI
            if wanted or group.is_open:
                group.set_open(wanted)

    def _poll_ns(self, now_ns: int) -> int:
        config, present = self._config, self._present
        lower = [group for group in present if group.tier is not GateTier.HIGH]
        if any(group.state is LeaseState.DRAIN for group in lower):
            return config.drain_poll_ns
        if len(present) == 1 and present[0].is_open:
            return config.heartbeat_ns
        recent = now_ns - self._changed_ns < _RECENT_NS or any(
            self._reports[group.tenant.id].in_flight or self._reports[group.tenant.id].runnable for group in lower
        )
        return config.busy_poll_ns if recent and len(lower) > 1 else config.idle_poll_ns

    def _sample_every_ns(self, now_ns: int) -> int:
        """Return how old accounts may be: limits, and bounds that lower tiers may exceed, need fresh ones."""
        beside_high = len(self._present) > 1 and any(group.tier is GateTier.HIGH for group in self._present)
        matters = (beside_high and now_ns - self._changed_ns < _RECENT_NS) or any(
            group.tenant.policy.limit_milli < _WHOLE_MILLI
            and (self._reports[group.tenant.id].runnable or self._reports[group.tenant.id].in_flight)
            for group in self._present
        )
        least_ns = self._config.sample_ns if matters else 20 * self._config.sample_ns
        return max(least_ns, self._devices.slowest_sample_ns)

    def _sample(self, now_ns: int) -> None:
        self._sampled_ns = now_ns
        members = {pid: name for name, group in self.groups.items() for pid in group.members}
        tiers = {name: group.tenant.policy.tier for name, group in self.groups.items()}
        sample = self._devices.sample(self.index, members, tiers)
        for name, account in sample.accounts.items():
            self.groups[name].account = account
        if self._devices.exact:
            self._check_marks(sample.idle, now_ns)
            self._stale = self._stale or any(group.tier is GateTier.HIGH for group in self.groups.values())

    def _decide(self, now_ns: int) -> None:
        reports = {name: self._report(name) for name in self._seated if name in self._reports}
        decision = arbiter.decide(self._state.reported(reports), now_ns)
        self._state = decision.state
        care = self._care()
        for grant in decision.grants:
            group = self.groups[grant.tenant_id]
            group.grant(grant, care if group.tier is not GateTier.HIGH else None, now_ns)
        for action in decision.actions:
            self._refuse(action)
        self._wake_ns, self._stale = decision.wake_at_ns, False

    def _report(self, name: str) -> Report:
        group, report = self.groups[name], self._reports[name]
        # Whose processes have gone has nothing to wait for; its accounts stay, so that coming back gains nothing.
        return report if group.present else Report(acknowledged_epoch=group.epoch, device_ns=report.device_ns)

    def _care(self) -> Care | None:
        """Return what the strictest high step with a process asks of lower tiers."""
        policies = [g.tenant.policy for g in self.groups.values() if g.tier is GateTier.HIGH and g.present]
        if not policies:
            return None
        return Care(
            min(policy.max_slowdown_ppm or 0 for policy in policies),
            min(policy.max_stall_ns or 0 for policy in policies),
        )

    def _refuse(self, action: arbiter.Action) -> None:
        """Tell the arbiter that nothing beyond the gates can be done, so that it does not count on it."""
        self._log("cannot-enforce", gpu=self.index, tenant=action.tenant_id, action=action.kind.value)
        self._state = self._state._replace(
            tenants=tuple(
                tenant._replace(failed=tenant.failed | {action.kind}) if tenant.id == action.tenant_id else tenant
                for tenant in self._state.tenants
            )
        )


def _differs(before: Report, now: Report, epoch: int) -> bool:
    """Whether the arbiter would see something new: more or less in flight is not, nothing at all is."""
    return (
        before.runnable != now.runnable
        or (before.in_flight > 0) != (now.in_flight > 0)
        or (before.acknowledged_epoch >= epoch) != (now.acknowledged_epoch >= epoch)
    )
