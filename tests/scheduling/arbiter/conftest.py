"""A GPU and its clients in virtual time: exact, deterministic, and written without looking at the arbiter's own accounts.

The device runs one unit at a time, in order of submission, and pays for going from one client to another. A client's gate
obeys its grant to the nanosecond: it submits while it holds RUN and the deadline has not come, up to its cap. Beside a high
step it submits only into the high step's pauses. There is one agent, which asks the arbiter whenever something has changed
and when it was told to.
"""

from bisect import bisect_right
from collections import deque

import pytest

from pillion.policy import Memory, OnPreempt, Policy, Tier
from pillion.scheduling.arbiter import NEVER_NS, Gpu, LeaseState, Report, State, Tenant, Tuning, decide

MS = 1_000_000
GIB = 1 << 30


class Program:
    """Work that comes in bursts: `units` of `unit_ns`, then a pause; with no pause there is always more."""

    def __init__(self, unit_ns, units=1, pause_ns=0, start_ns=0, stop_ns=NEVER_NS):
        self.unit_ns, self.units, self.pause_ns = unit_ns, units, pause_ns
        self.next_burst_ns, self.left, self.stop_ns = start_ns, 0, stop_ns
        self.in_flight = 0
        self.done_ns = 0

    def arrive(self, now_ns):
        """Let a new burst arrive, if its time has come and the last one is through."""
        if self.left == 0 and self.in_flight == 0 and self.next_burst_ns <= now_ns < self.stop_ns:
            self.left = self.units

    def complete(self, now_ns):
        self.in_flight -= 1
        self.done_ns += self.unit_ns
        if self.left == 0 and self.in_flight == 0:
            self.next_burst_ns = now_ns + self.pause_ns
        if self.pause_ns == 0:
            self.arrive(now_ns)

    def next_event_ns(self):
        return self.next_burst_ns if self.left == 0 and self.in_flight == 0 else NEVER_NS

    @property
    def wants(self):
        return self.left > 0 or self.in_flight > 0


class Machine:
    """One GPU under the arbiter. `spans` records who had the device when: (tenant, start, end)."""

    def __init__(self, gpu=None, tuning=None, counts_device_time=True, gates_know_durations=True):
        self.state = State(gpu or Gpu(80 * GIB), tuning=tuning or Tuning())
        self.counts_device_time = counts_device_time
        self.gates_know_durations = gates_know_durations
        self.now_ns = 0
        self.programs = {}
        self.queue = deque()
        self.running_until_ns = None
        self.last_on_device = None
        self.spans = []
        self._timelines = {}
        self.decision = None
        self.decisions = 0
        self.checks = []

    def join(self, tenant_id, policy, program):
        self.programs[tenant_id] = program
        self.state = self.state.joined(Tenant(tenant_id, policy, registered_ns=self.now_ns))

    def leave(self, tenant_id):
        """A client goes, as after SIGKILL: what it has queued is gone, what is running runs out."""
        self.programs[tenant_id].stop_ns = 0
        head = list(self.queue)[:1] if self.running_until_ns is not None else []
        self.queue = deque(head + [entry for entry in list(self.queue)[len(head) :] if entry != tenant_id])
        self.state = self.state.left(tenant_id)
        if not (head and head[0] == tenant_id):
            del self.programs[tenant_id]

    def run(self, until_ns):
        while True:
            self._settle()
            times = [until_ns, self.decision.wake_at_ns, self.running_until_ns or NEVER_NS]
            times += [program.next_event_ns() for program in self.programs.values()]
            times = [time for time in times if time > self.now_ns]
            self.now_ns = min(times)
            if self.running_until_ns is not None and self.running_until_ns <= self.now_ns:
                self.running_until_ns = None
                done = self.queue.popleft()
                self.programs[done].complete(self.now_ns)
                if all(tenant.id != done for tenant in self.state.tenants) and done not in self.queue:
                    del self.programs[done]
            if self.now_ns >= until_ns:
                self._settle()
                return self

    def _settle(self):
        """Let work arrive, ask, submit, and ask again until nothing changes at this instant."""
        for _ in range(8):
            for program in self.programs.values():
                program.arrive(self.now_ns)
            before = self.state
            reported = self.state.reported({tenant.id: self._report(tenant) for tenant in before.tenants})
            due = self.decision is None or self.now_ns >= self.decision.wake_at_ns
            if reported == before and not due:
                self._start()
                return
            self.decision = decide(reported, self.now_ns)
            self.decisions += 1
            self.state = self.decision.state
            for check in self.checks:
                check(self)
            self._submit()
            self._start()
        raise AssertionError("the arbiter does not come to rest")

    def _report(self, tenant):
        program = self.programs[tenant.id]
        return Report(
            runnable=program.wants,
            in_flight=program.in_flight,
            acknowledged_epoch=tenant.standing.lease.epoch,
            device_ns=program.done_ns if self.counts_device_time else None,
        )

    def _submit(self):
        tiers = {tenant.id: tenant.policy.tier for tenant in self.state.tenants}
        high_is_busy = any(tier is Tier.HIGH and self.programs[tenant_id].wants for tenant_id, tier in tiers.items())
        for grant in self.decision.grants:
            program = self.programs[grant.tenant_id]
            if grant.state is not LeaseState.RUN or self.now_ns >= grant.deadline_ns:
                continue
            if grant.budget_ppm is not None and high_is_busy:
                continue
            while program.left and (not grant.in_flight_cap or program.in_flight < grant.in_flight_cap):
                if (
                    self.gates_know_durations
                    and program.in_flight
                    and (program.in_flight + 1) * program.unit_ns > 2 * MS
                ):
                    break
                program.left -= 1
                program.in_flight += 1
                self.queue.append(grant.tenant_id)
                if program.left == 0 and program.pause_ns == 0 and self.now_ns < program.stop_ns:
                    program.left = program.units

    def _start(self):
        if self.queue and self.running_until_ns is None:
            head = self.queue[0]
            switch_ns = self.state.gpu.switch_cost_ns if self.last_on_device not in (None, head) else 0
            start_ns = self.now_ns + switch_ns
            self.running_until_ns = start_ns + self.programs[head].unit_ns
            self.last_on_device = head
            self.spans.append((head, start_ns, self.running_until_ns))

    def used_ns(self, tenant_id, since_ns, until_ns):
        """Return the device time of one tenant between two times: exact."""
        starts, ends, sums = self._timeline(tenant_id)

        def used_until(time_ns):
            through = bisect_right(ends, time_ns)
            begun = max(0, time_ns - starts[through]) if through < len(starts) else 0
            return (sums[through - 1] if through else 0) + begun

        return used_until(until_ns) - used_until(since_ns)

    def _timeline(self, tenant_id):
        known, timeline = self._timelines.get(tenant_id, (0, ([], [], [])))
        starts, ends, sums = timeline
        for who, start, end in self.spans[known:]:
            if who == tenant_id:
                starts.append(start)
                ends.append(end)
                sums.append((sums[-1] if sums else 0) + end - start)
        self._timelines[tenant_id] = (len(self.spans), timeline)
        return timeline

    def turns(self):
        """Who had the device when, with what follows on for the same tenant put together."""
        merged = []
        for who, start, end in self.spans:
            if merged and merged[-1][0] == who and start - merged[-1][2] == 0:
                merged[-1] = (who, merged[-1][1], end)
            else:
                merged.append((who, start, end))
        return merged


def policy(tier="normal", share=None, limit=1000, memory=1, on_preempt="wait", slowdown=10_000, stall=10 * MS):
    high = tier == "high"
    return Policy(
        share_milli=share, limit_milli=limit, memory=Memory(memory * GIB, f"{memory}Gi"), tier=Tier(tier),
        max_slowdown_ppm=slowdown if high else None, max_stall_ns=stall if high else None,
        on_preempt=OnPreempt(on_preempt), container=None,
    )  # fmt: skip


@pytest.fixture(name="policy", scope="session")
def policy_fixture():
    return policy


@pytest.fixture(scope="session")
def machine():
    return Machine


@pytest.fixture(scope="session")
def program():
    return Program
