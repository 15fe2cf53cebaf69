"""Random and senseless histories: what holds after every event."""

from hypothesis import given
from hypothesis import strategies as st

from admission.decision import NEVER, Admit, Lease, Reason

MS = 1_000_000
BUCKETS_SAVED = 10

times = st.one_of(st.integers(0, 10**9), st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 10**12, NEVER - 1, NEVER]))
steps = st.one_of(st.integers(0, 3 * MS), st.sampled_from([0, 10**9, 10**13]))
durations = st.one_of(st.integers(0, 10 * MS), st.sampled_from([0, 1, 10**11, 10**15, NEVER]))
units = st.tuples(
    st.integers(0, 2**64 - 1) | st.integers(0, 4), st.sampled_from([0, 1, 20, 2**32 - 1]), st.integers(0, 3)
)
which = st.sampled_from([0, 0, 0, 1, 31, 32, 2**32 - 1])
events = st.one_of(
    st.tuples(st.just("busy"), which, st.integers(-MS, 2 * MS)),
    st.tuples(st.just("idle"), which, st.integers(-MS, 2 * MS)),
    st.tuples(st.just("present"), which, st.booleans()),
    st.tuples(st.just("lease"), st.sampled_from(Lease)),
    st.tuples(st.just("ask"), units),
    st.tuples(st.just("ask"), units),
    st.tuples(st.just("done"), st.integers(0, 3), st.integers(-MS, MS), durations),
    st.tuples(st.just("terms"), st.integers(0, 2**64 - 1), st.integers(0, 2 * 10**6), durations),
)
terms = st.fixed_dictionaries({
    "max_slowdown_ppm": st.sampled_from([0, 1_000, 10_000, 500_000, 10**6, NEVER]),
    "budget_ppm": st.sampled_from([0, 62_500, 10**6, NEVER]),
    "max_stall_ns": st.sampled_from([0, 100_000, 10 * MS, NEVER]),
    "bucket_ns": st.sampled_from([0, 300 * MS, NEVER]),
    "switch_ns": st.sampled_from([0, 50_000, NEVER]),
    "slice_ns": st.sampled_from([0, 1, 2 * MS, NEVER]),
})  # fmt: skip


class Story:
    """Plays events to one tenant, and keeps what a test needs to know about them."""

    def __init__(self, lib, now_ns, terms):
        self.admit = Admit(lib, now_ns)
        self.now_ns, self.terms = now_ns, terms
        self.lease, self.present, self.busy, self.last_ticket = Lease.STOP, set(), set(), 0
        self.admit.set_terms(now_ns, **terms)

    def play(self, event):
        """Tell one event; return the answer if it was a question, with its unit."""
        admit, now_ns = self.admit, self.now_ns
        match event:
            case ("busy", one, ago_ns):
                admit.high_busy(now_ns, (now_ns - ago_ns) % 2**64, one)
                self.busy |= {one} & self.present
            case ("idle", one, ago_ns):
                admit.high_idle(now_ns, (now_ns - ago_ns) % 2**64, one)
                self.busy -= {one}
            case ("present", one, there):
                admit.high_present(now_ns, there, one)
                if one < 32:
                    (self.present.add if there else self.present.discard)(one)
                    self.busy &= self.present
            case ("lease", lease):
                admit.set_lease(now_ns, lease)
                self.lease = lease
            case ("done", stream, ago_ns, took_ns):
                admit.completed(now_ns, self.last_ticket, (now_ns - ago_ns) % 2**64, took_ns, stream)
            case ("terms", slowdown, budget, stall_ns):
                self.terms = self.terms | {"max_slowdown_ppm": slowdown, "budget_ppm": budget, "max_stall_ns": stall_ns}
                admit.set_terms(now_ns, **self.terms)
            case ("ask", unit):
                expected_ns = admit.expected_ns(unit[0], unit[1])
                answer = admit.decide(now_ns, *unit)
                if answer.go:
                    self.last_ticket = admit.submitted(now_ns, *unit) or self.last_ticket
                return answer, expected_ns
        return None


def check(story, answered):
    bucket_ns = story.admit.bucket_ns
    assert bucket_ns >= 0
    if not answered:
        return
    answer, expected_ns = answered
    if story.lease is not Lease.RUN:
        assert (answer.go, answer.reason, answer.until_ns) == (False, Reason.NO_LEASE, NEVER)
        return
    if not story.present:
        assert (answer.go, answer.reason) == (True, Reason.NO_HIGH)
        return
    assert answer.go == (answer.reason is Reason.FITS)
    if story.busy and answer.go:
        assert expected_ns + 2 * min(story.terms["switch_ns"], 10**11) <= story.terms["max_stall_ns"]


@given(start_ns=times, terms=terms, history=st.lists(st.tuples(steps, events), max_size=60))
def test_in_any_history_the_rules_hold(lib, start_ns, terms, history):
    story = Story(lib, start_ns, terms)
    for step_ns, event in history:
        story.now_ns = min(story.now_ns + step_ns, NEVER)
        check(story, story.play(event))


@given(terms=terms, history=st.lists(st.tuples(times, events), max_size=60))
def test_with_a_clock_that_jumps_about_the_rules_hold(lib, terms, history):
    story = Story(lib, 0, terms)
    for now_ns, event in history:
        story.now_ns = now_ns
        check(story, story.play(event))


@given(terms=terms, history=st.lists(st.tuples(times, events), max_size=40))
def test_credit_never_exceeds_its_bucket_or_what_is_saved_for_one_unit(lib, terms, history):
    story = Story(lib, 0, terms)
    largest_ns = story.admit.bucket_ns
    for now_ns, event in history:
        story.now_ns = now_ns
        story.play(event)
        largest_ns = max(largest_ns, story.admit.bucket_ns)
        assert story.admit.credit_ns <= largest_ns <= max(largest_ns, BUCKETS_SAVED * story.admit.bucket_ns)


@given(history=st.lists(st.tuples(times, events), max_size=40))
def test_after_any_history_work_flows_again(lib, history):
    """Everything settles, the clock runs on from wherever it was, the high step stays idle: then a unit goes."""
    sane = {
        "max_slowdown_ppm": 10_000, "budget_ppm": 10**6, "max_stall_ns": 10 * MS, "bucket_ns": 300 * MS, "switch_ns": 50_000,
        "slice_ns": 2 * MS,
    }  # fmt: skip
    story = Story(lib, 0, sane)
    for now_ns, event in history:
        if event[0] != "terms":
            story.now_ns = now_ns
            story.play(event)
    admit, now_ns = story.admit, 10**12
    for one in range(32):
        admit.high_idle(now_ns, now_ns, one)
    admit.high_present(now_ns)
    admit.set_lease(now_ns, Lease.RUN)
    for stream in range(4):
        admit.completed(now_ns, NEVER, now_ns, 0, stream)
    for turn in range(16):  # the unit itself takes a sane time
        ticket = admit.submitted(now_ns + turn, 123_456)
        admit.completed(now_ns + turn, ticket, now_ns + turn, 500_000)
    deadline_ns, waits = now_ns + 10**16, 0
    answer = admit.decide(now_ns, 123_456)
    while not answer.go and now_ns < deadline_ns and waits < 1000:
        assert answer.until_ns > now_ns
        now_ns = now_ns + 10**12 if waits > 10 else answer.until_ns
        waits += 1
        answer = admit.decide(now_ns, 123_456)
    assert answer.go
