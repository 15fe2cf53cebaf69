"""Steps of all tiers come, work, pause, and go or are killed, in virtual time; after every decision the promises hold.

The promises are checked against what the device did and what the clients had to do, never against the arbiter's accounts.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from pillion.policy import Tier
from pillion.scheduling.arbiter import LeaseState

MS = 1_000_000
WINDOW = 1000 * MS
LINGER, SLACK = MS, MS // 10
UNITS = st.integers(MS // 2, 10 * MS)


def check(gpu):
    """What must be true right after each decision."""
    grants = {grant.tenant_id: grant for grant in gpu.decision.grants}
    policies = {tenant.id: tenant.policy for tenant in gpu.state.tenants}
    wants = {name: gpu.programs[name].wants for name in policies}
    free = {name for name in policies if wants[name] and policies[name].limit_milli == 1000}
    runs = {name for name, grant in grants.items() if grant.state is LeaseState.RUN}
    drains = {name for name, grant in grants.items() if grant.state is LeaseState.DRAIN}
    tier = {tier: {name for name in policies if policies[name].tier is tier} for tier in Tier}
    lower = tier[Tier.NORMAL] | tier[Tier.LOW]

    assert gpu.decision.wake_at_ns > gpu.now_ns
    # Exclusive: by what is granted, and by what is on the device (a unit of one that was killed may still run out).
    assert len(runs & lower) <= 1
    assert len({name for name in runs & tier[Tier.HIGH] if wants[name]}) <= 1
    assert len({name for name in gpu.queue if name in lower}) <= 1
    # Higher tiers first: nobody below takes a lease that someone above could use.
    if free & tier[Tier.NORMAL]:
        assert not runs & tier[Tier.LOW]
    for name in tier[Tier.HIGH]:
        others = [other for other in tier[Tier.HIGH] if other != name and (wants[other] or other in drains)]
        if policies[name].limit_milli == 1000 and not others:
            assert name in runs
    # Work conserving: somebody holds, or hands over, what somebody may have.
    if free & lower:
        assert (runs | drains) & lower
    # Budgets.
    bounds = [policies[name].max_slowdown_ppm for name in tier[Tier.HIGH]]
    budgets = [grant.budget_ppm for grant in grants.values() if grant.budget_ppm is not None]
    assert sum(budgets) <= min(bounds, default=0)
    if not bounds:
        assert not budgets


class Comings(RuleBasedStateMachine):
    """One GPU; shares add up to at most 1, which is what placing steps on it promises."""

    machine = policy = program = None  # set below: state machines take no fixtures

    @initialize()
    def boot(self):
        self.gpu = self.machine()
        self.gpu.checks.append(check)
        self.shares, self.count = {}, 0
        self.always = {}  # busy from when on, without limit: who -> (since, share)
        self.high_until_ns = 0  # until when there has been a high step
        self.bounds = {}  # limited: who -> (limit, unit)
        self.gone = {}

    def _join(self, tier, share, limit, program):
        name = f"{tier}-{self.count:02}"
        self.count += 1
        if tier != "low":
            share = min(share, 1000 - sum(self.shares.values()))
            if share < 10:
                return None
            self.shares[name] = share
        limit = max(limit, share)
        self.gpu.join(name, self.policy(tier, share=share, limit=limit), program)
        if limit < 1000:
            self.bounds[name] = (limit, program.unit_ns)
        return name

    @rule(
        tier=st.sampled_from(["high", "normal", "normal", "low"]),
        share=st.integers(50, 600),
        limit=st.sampled_from([100, 300, 700, 1000, 1000]),
        unit=UNITS,
        units=st.integers(1, 20),
        pause=st.integers(MS // 2, 60 * MS),
    )
    def a_step_with_pauses_comes(self, tier, share, limit, unit, units, pause):
        self._join(tier, share, limit, self.program(unit, units, pause, start_ns=self.gpu.now_ns))

    @rule(share=st.integers(100, 600), unit=UNITS, tier=st.sampled_from(["normal", "low"]))
    def a_busy_step_comes(self, share, unit, tier):
        name = self._join(tier, share, 1000, self.program(unit, start_ns=self.gpu.now_ns))
        if name and tier == "normal":
            self.always[name] = (self.gpu.now_ns, self.shares[name])

    @precondition(lambda self: self.gpu.state.tenants)
    @rule(data=st.data())
    def a_step_is_killed(self, data):
        name = data.draw(st.sampled_from(sorted(tenant.id for tenant in self.gpu.state.tenants)))
        self._look_back(only=name)
        self.gpu.leave(name)
        for record in (self.shares, self.always, self.bounds):
            record.pop(name, None)

    @rule(milliseconds=st.integers(1, 400))
    def time_passes(self, milliseconds):
        self.gpu.run(self.gpu.now_ns + milliseconds * MS)
        if any(tenant.policy.tier is Tier.HIGH for tenant in self.gpu.state.tenants):
            self.high_until_ns = self.gpu.now_ns

    @rule()
    def a_second_passes(self):
        self.time_passes(1100)

    def teardown(self):
        if hasattr(self, "gpu"):
            self._look_back()

    def _look_back(self, only=None):
        for name, (limit, unit) in self.bounds.items():
            if only in (None, name):
                for who, _, end in self.gpu.spans:
                    if who == name:
                        assert self.gpu.used_ns(name, end - WINDOW, end) <= limit * MS + max(unit, 2 * MS)
        for name, (since, share) in self.always.items():
            if only in (None, name):
                self._kept_its_share(name, since, share)

    def _kept_its_share(self, name, since, share):
        """In every window since it came, or since the last high step went: its share, less 4 points.

        A peer that overruns its turn takes a unit of 10 ms or one that is queued, and a killed one's unit runs out.
        """
        for start in range(max(since, self.high_until_ns), self.gpu.now_ns - WINDOW + 1, 20 * MS):
            assert self.gpu.used_ns(name, start, start + WINDOW) >= (share - 40) * MS


def test_promises_hold_whatever_comes_and_goes(machine, policy, program):
    Comings.machine, Comings.policy, Comings.program = machine, staticmethod(policy), program
    run_state_machine_as_test(
        Comings,
        settings=settings(
            max_examples=30, stateful_step_count=14, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
