"""The pure model against hand-worked cases, and against a second computation of the same rules on random sequences."""

import faulthandler
import os
import signal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

MS = 1_000_000
US = 1_000


def two_contexts(model_device, **options):
    device = model_device(**options)
    first = device.call("emu_context_open", 0, 100, result=int)
    second = device.call("emu_context_open", 1, 200, result=int)
    for context in (first, second):
        assert device.call("emu_stream_open", context, 0, result=int) == 0
    return device, first, second


def work(device, context, unit_ns, units=1, stream=0):
    return device.call("emu_submit_work", context, stream, unit_ns, units, 1, 1)


def test_two_busy_contexts_share_the_device_by_slices(model_device):
    device, first, second = two_contexts(model_device)
    work(device, first, 500 * US, 100)
    work(device, second, 500 * US, 100)
    device.call("emu_advance", 41 * MS)
    one, other = device.snapshot().contexts
    # 41 ms are ten rounds of 2 ms, a switch, 2 ms, a switch.
    assert one.busy_ns == other.busy_ns == 20 * MS
    assert device.snapshot().switching_ns == 20 * 50 * US
    assert one.wait_ns == other.wait_ns == 21 * MS
    assert one.wait_on_ns == {other.id: 21 * MS}
    assert other.wait_in_switch_ns == 1 * MS


def test_a_context_that_comes_waits_for_the_end_of_the_running_slice(model_device):
    device, first, second = two_contexts(model_device)
    work(device, first, 10 * MS)
    device.call("emu_advance", 5 * MS)  # its third slice lasts from 4 to 6 ms
    work(device, second, 100 * US)
    device.call("emu_advance", 20 * MS)
    low, high = device.snapshot().contexts
    assert high.wait_ns == 1 * MS + 50 * US
    assert high.wait_on_ns == {low.id: 1 * MS + 50 * US}
    assert low.wait_ns == 50 * US + 100 * US + 50 * US  # away for one kernel and two switches
    assert low.preemptions == 1
    assert low.units_done == high.units_done == 1


def test_a_pause_that_is_lent_costs_its_owner_one_switch(model_device):
    device, first, second = two_contexts(model_device)
    work(device, first, 500 * US)
    device.call("emu_advance", 1 * MS)
    work(device, second, 300 * US)  # 1 ms: idle, so it starts after a switch
    device.call("emu_advance", 2 * MS)
    work(device, first, 500 * US)
    device.call("emu_advance", 3 * MS)
    assert device.snapshot().contexts[0].wait_on_ns == {2: 50 * US}
    assert device.snapshot().contexts[1].wait_on_ns == {1: 50 * US}


def test_streams_of_one_context_take_turns_by_kernels_and_priority_goes_first(model_device):
    device = model_device()
    context = device.call("emu_context_open", 0, 1, result=int)
    for priority in (0, 0, (1 << 32) - 1):  # the last is -1
        device.call("emu_stream_open", context, priority, result=int)
    for stream in (0, 1):
        work(device, context, 100 * US, 3, stream)
    device.call("emu_advance", 50 * US)
    work(device, context, 100 * US, 2, stream=2)  # comes in the middle of stream 0's first kernel
    events = [device.call("emu_event_open", context, result=int) for _ in range(3)]
    for stream, event in enumerate(events):
        device.call("emu_submit_mark", context, stream, event)
    device.call("emu_advance", 350 * US)
    assert device.call("emu_is_done", context, 2, 2, result=bool)  # two kernels right after the first: 300 us
    assert not device.call("emu_is_done", context, 1, 1, result=bool)
    device.call("emu_advance", 10 * MS)
    assert device.snapshot().busy_ns == 800 * US


def test_an_event_of_another_stream_is_waited_for(model_device):
    device = model_device()
    context = device.call("emu_context_open", 0, 1, result=int)
    for _ in range(2):
        device.call("emu_stream_open", context, 0, result=int)
    seq = work(device, context, 3 * MS, stream=0)
    device.call("emu_submit_wait", context, 1, context, 0, seq)
    last = work(device, context, 1 * MS, stream=1)
    assert device.call("emu_earliest", context, 1, 1 * MS) == 4 * MS
    device.call("emu_advance", 4 * MS - 1)
    assert not device.call("emu_is_done", context, 1, last, result=bool)
    device.call("emu_advance", 4 * MS)
    assert device.call("emu_is_done", context, 1, last, result=bool)


def test_what_ends_leaves_the_device_at_once_and_its_numbers_stay(model_device):
    device, first, second = two_contexts(model_device)
    work(device, first, 100 * MS)
    work(device, second, 1 * MS)
    device.call("emu_advance", 1 * MS)
    device.call("emu_context_close", first)
    device.call("emu_advance", 3 * MS)
    ended, other = device.snapshot().contexts
    assert (ended.live, ended.busy_ns, ended.pending_ns) == (False, 1 * MS, 0)
    assert other.busy_ns == 1 * MS
    assert other.wait_on_ns == {ended.id: 1 * MS, 0: 50 * US}  # the switch is a context's that is gone
    for _ in range(128):  # until the slot is needed again
        device.call("emu_context_open", 2, 300, result=int)
    forgotten = next(c for c in device.snapshot().contexts if c.id == other.id)
    assert forgotten.wait_on_ns == {0: 1 * MS + 50 * US}


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.integers(1, 3_000), st.just(0), st.just(0)),
        st.tuples(st.just("work"), st.integers(0, 3), st.integers(0, 2), st.integers(1, 2_500)),
        st.tuples(st.just("graph"), st.integers(0, 3), st.integers(0, 2), st.integers(1, 700)),
        st.tuples(st.just("wait"), st.integers(0, 3), st.integers(0, 2), st.integers(0, 11)),
        st.tuples(st.just("mark"), st.integers(0, 3), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("host"), st.integers(0, 3), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("host-done"), st.integers(0, 3), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("reopen"), st.integers(0, 3), st.just(0), st.just(0)),
    ),
    max_size=60,
)


class Driven:
    """Four contexts of three streams, and what can be asked of them. On a crowded device all other slots have been used."""

    def __init__(self, device, crowded=False):
        self.device, self.now, self.slots, self.hosts = device, 0, [], {}
        for slot in [self.open(9) for _ in range(124)] if crowded else []:
            device.call("emu_context_close", slot)
        for place in range(4):
            self.slots.append(self.open(place))

    def open(self, process):
        slot = self.device.call("emu_context_open", process, 1000 + process, result=int)
        for priority in (0, 0, 0):
            self.device.call("emu_stream_open", slot, priority, result=int)
        return slot

    def do(self, what, place, stream, amount):
        device = self.device
        if what == "pass":
            self.now += place * US
            device.call("emu_advance", self.now)
            return
        slot = self.slots[place]
        if what == "work":
            work(device, slot, amount * US, 1, stream)
        elif what == "graph":
            work(device, slot, amount * US, 7, stream)
        elif what == "wait":
            other, on = divmod(amount, 3)
            target = self.slots[other]
            if (target, on) != (slot, stream):
                seq = device.call("emu_submit_mark", target, on, 0)
                device.call("emu_submit_wait", slot, stream, target, on, seq)
        elif what == "mark":
            device.call("emu_submit_mark", slot, stream, 0)
        elif what == "host":
            self.hosts.setdefault((slot, stream), []).append(device.call("emu_submit_host", slot, stream))
        elif what == "host-done":
            waiting = self.hosts.get((slot, stream))
            if waiting and device.call("emu_host_ready", slot, stream, waiting[0], result=bool):
                device.call("emu_host_done", slot, stream, waiting.pop(0))
        elif what == "reopen":
            device.call("emu_context_close", slot)
            for stream_slot in range(3):
                self.hosts.pop((slot, stream_slot), None)
            self.slots[place] = self.open(place)


@given(
    actions=ACTIONS,
    slice_us=st.sampled_from([300, 2000]),
    switch_us=st.sampled_from([0, 50]),
    crowded=st.sampled_from([False, False, True]),
)
@settings(max_examples=150, deadline=None)
def test_any_sequence_is_computed_alike_by_other_means(
    model_device, agrees_with_replay, actions, slice_us, switch_us, crowded
):
    device = model_device(slice_ns=slice_us * US, switch_ns=switch_us * US)
    driven = Driven(device, crowded)
    for action in actions:
        driven.do(*action)
    device.call("emu_advance", driven.now + 20 * MS)
    agrees_with_replay(device.record())


@given(actions=ACTIONS, data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_sleeper_is_promised_a_time_that_is_too_late(model_device, actions, data):
    device = model_device()
    driven = Driven(device)
    for action in actions:
        driven.do(*action)
    place, stream = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 2))
    slot = driven.slots[place]
    seq = work(device, slot, data.draw(st.integers(1, 3_000)) * US, stream=stream)
    until = device.stream(slot, stream, "submitted_ns")
    for _ in range(2_000):
        if device.call("emu_is_done", slot, stream, seq, result=bool):
            return
        promised = device.call("emu_earliest", slot, stream, until)
        if promised == 0:
            return  # only a host function can tell, and nobody carries one out here
        assert promised > driven.now
        device.call("emu_advance", promised - 1)
        assert not device.call("emu_is_done", slot, stream, seq, result=bool)
        driven.now = promised
        device.call("emu_advance", driven.now)
    raise AssertionError("the promises do not come nearer to the end")


@pytest.mark.parametrize(
    ("step", "least"),
    [
        (("emu_advance", 3 * MS), 8),
        (("emu_submit_work", 1, 0, 100, 1, 1, 1), 25),
        (("emu_context_close", 0), 15),
        (("emu_context_open", 5, 500), 10),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_step_that_is_cut_short_at_any_write_is_undone(model_device, step, least):
    """Let a child die at its n-th write: the trap that guards the list of notes springs there if the list is nearly full."""
    notes = 2048
    died = 0
    for writes in range(1, 80):
        device, first, second = two_contexts(model_device, shared=True)
        work(device, first, 3 * MS, 2)
        work(device, second, 1 * MS)
        device.call("emu_advance", 1 * MS)
        device.fill_notes()
        before = device.everything()
        device.put("undo_count", notes - writes)
        child = os.fork()
        if child == 0:
            faulthandler.disable()
            signal.signal(signal.SIGILL, signal.SIG_DFL)
            device.call(*step)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if not os.WIFSIGNALED(status):
            break
        assert os.WTERMSIG(status) in {signal.SIGILL, signal.SIGTRAP}
        device.call("emu_rollback")
        assert device.everything() == before
        died += 1
    assert died >= least
