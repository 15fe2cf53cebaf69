"""Real processes on one emulated device: fair slices, exact accounts, and nothing left of those that die."""

import os
import random
import signal
import time

import pytest

from pillion_node.emulator import Machine

MS = 1_000_000

BUSY = """
context()
f = kernel(b"spin_500us")
s = ok(d.cuStreamCreate(0))
say("up")
launches = heard()[0]
launch(f, s, launches)
say("queued")
ok(d.cuStreamSynchronize(s))
say("done")
"""


def test_two_busy_processes_get_half_each_and_the_accounts_add_up(machine, client, agrees_with_replay):
    clients = [client(machine, BUSY) for _ in range(2)]
    for each in clients:
        assert each.hear() == "up"
    for each in clients:
        each.tell(400)  # 200 ms of work each
    for each in clients:
        assert each.hear() == "queued"
    for each in clients:
        assert each.hear() == "done"
        each.finish()
    with Machine.open(machine) as opened:
        record = opened.record()
    agrees_with_replay(record)
    first, second = record.device.contexts
    assert first.busy_ns == second.busy_ns == 200 * MS
    # While both had work, neither got more than one slice more than the other.
    spans = [span for span in record.history if span.activity == "running"]
    both_from = max(next(s.start_ns for s in spans if s.context == one.id) for one in (first, second))
    both_until = min(max(s.end_ns for s in spans if s.context == one.id) for one in (first, second))
    got = {one.id: sum(max(0, min(s.end_ns, both_until) - max(s.start_ns, both_from)) for s in spans if s.context == one.id)
           for one in (first, second)}  # fmt: skip
    assert both_until - both_from > 100 * MS
    assert abs(got[first.id] - got[second.id]) <= 2 * MS


def test_waiting_is_exact_for_a_high_step_beside_a_busy_low_one(machine, client, agrees_with_replay):
    low = client(machine, BUSY)
    high = client(
        machine,
        """
        context()
        f = kernel(b"spin_500us")
        s = ok(d.cuStreamCreate(0))
        say("up")
        heard()
        for _ in range(20):
            launch(f, s, 10)
            ok(d.cuStreamSynchronize(s))
            time.sleep(0.0033)
        """,
    )
    low.hear(), high.hear()
    low.tell(1000)
    high.tell("go")
    high.finish()
    with Machine.open(machine) as opened:
        record = opened.record()
    agrees_with_replay(record)
    low_context, high_context = sorted(record.device.contexts, key=lambda context: context.launches, reverse=True)
    assert high_context.busy_ns == 20 * 10 * 500_000
    assert high_context.wait_on_ns == {low_context.id: high_context.wait_ns}
    # Each burst of 5 ms needs three slices, so two whole slices of the other and three switches besides the first wait.
    assert 20 * (2 * 2 * MS) < high_context.wait_ns < 20 * (3 * 2 * MS + 3 * 100_000)


def test_killed_processes_leave_nothing_behind(machine, client):
    clients = [
        client(
            machine,
            "context()\nok(d.cuMemAlloc(100 << 20))\nf = kernel(b'spin_50us')\nsay('up')\nwhile True: launch(f, 0)",
        )
        for _ in range(3)
    ]
    survivor = client(machine, BUSY)
    for each in [*clients, survivor]:
        each.hear()
    survivor.tell(200)
    for each in clients:
        each.kill()
    assert survivor.hear() == "queued"
    assert survivor.hear() == "done"
    survivor.finish()
    with Machine.open(machine) as opened:
        device = opened.snapshot()
    assert device.memory_used_bytes == 0
    assert device.processes == ()
    assert [c for c in device.contexts if c.live] == []
    assert device.busy_ns + device.switching_ns + device.idle_ns == device.clock_ns - device.started_ns


def test_killing_at_random_moments_never_stops_the_others(machine, client):
    """A process that dies with a lock in its hand, in the middle of a step, costs the others nothing but that step."""
    chance = random.Random(os.getpid())
    survivor = client(
        machine,
        """
        context()
        f = kernel(b"spin_20us")
        say("up")
        rounds = 0
        while not (sys.stdin in __import__("select").select([sys.stdin], [], [], 0)[0]):
            launch(f, 0, 20)
            ok(d.cuCtxSynchronize())
            rounds += 1
        say(rounds)
        """,
    )
    survivor.hear()
    for _ in range(12):
        victim = client(
            machine, "context()\nf = kernel(b'k_1us')\nsay('up')\nwhile True: launch(f, 0); d.cuStreamQuery(0)"
        )
        victim.hear()
        time.sleep(chance.random() * 0.02)
        victim.kill()
    survivor.tell("enough")
    assert survivor.finish() > 0
    with Machine.open(machine) as opened:
        device = opened.snapshot()
    assert device.busy_ns + device.switching_ns + device.idle_ns == device.clock_ns - device.started_ns
    assert device.processes == ()


def test_eight_busy_devices_need_little_of_a_core(machine_at, client):
    path = machine_at(gpus=8)
    script = """
        context(heard()[0])
        f = kernel(b"spin_500us")
        say("up")
        heard()
        before = time.process_time()
        for _ in range(10):
            launch(f, 0, 100)
            ok(d.cuCtxSynchronize())
        say(time.process_time() - before)
    """
    clients = [client(path, script) for _ in range(8)]
    for gpu, each in enumerate(clients):
        each.tell(gpu)
    for each in clients:
        each.hear()
    for each in clients:
        each.tell("go")
    used = sum(each.finish() for each in clients)
    with Machine.open(path) as opened:
        busy = [opened.snapshot(gpu).busy_ns for gpu in range(8)]
    assert busy == [500 * MS] * 8
    assert used < 0.5, "eight devices were busy for half a second each: less than one core's time in all"


def test_a_launch_blocks_when_the_queue_is_full(machine_at, client):
    said = client(
        machine_at(queue_depth=4),
        """
        context()
        f = kernel(b"spin_10ms")
        launch(f, 0, 5)   # the fifth waits for the first
        say(d.cuStreamQuery(0)[0].name)
        ok(d.cuCtxSynchronize())
        """,
    ).finish()
    assert said == "CUDA_ERROR_NOT_READY"


def test_six_processes_share_fairly(machine, client, agrees_with_replay):
    clients = [client(machine, BUSY) for _ in range(6)]
    for each in clients:
        each.hear()
    for each in clients:
        each.tell(60)  # 30 ms each
    for each in clients:
        assert [each.hear(), each.hear()] == ["queued", "done"]
    with Machine.open(machine) as opened:
        record = opened.record()
    agrees_with_replay(record)
    assert {context.busy_ns for context in record.device.contexts} == {30 * MS}


@pytest.mark.parametrize("how", ["os._exit(0)", "sys.exit(0)", "os.kill(os.getpid(), signal.SIGTERM)"])
def test_an_exit_of_any_kind_gives_everything_back(machine, client, how):
    gone = client(machine, f"context()\nok(d.cuMemAlloc(1 << 20))\nlaunch(kernel(b'spin_1s'), 0, 3)\nsay('up')\n{how}")
    gone.hear()
    gone.process.wait()
    with Machine.open(machine) as opened:
        device = opened.snapshot()
    assert (device.memory_used_bytes, device.processes, device.activity) == (0, (), "idle")
    assert gone.process.returncode in {0, -signal.SIGTERM}


def test_a_thousand_tenants_come_and_go(machine_at, client):
    path = machine_at(memory_bytes=1 << 30, context_bytes=100 << 20)
    client(
        path,
        """
        for turn in range(250):
            children = []
            for place in range(4):
                child = os.fork()
                if child == 0:
                    context()
                    ok(d.cuMemAlloc(1 << 20))
                    launch(kernel(b"k_20us"), 0, 5)
                    if (turn + place) % 3 == 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                    ok(d.cuCtxSynchronize())
                    os._exit(0)
                children.append(child)
            assert {os.waitpid(child, 0)[1] for child in children} <= {0, signal.SIGKILL}
        """,
    ).finish()
    with Machine.open(path) as opened:
        device = opened.snapshot()
    assert (device.memory_used_bytes, device.processes) == (0, ())
    assert max(context.id for context in device.contexts) == 1000
    assert device.busy_ns + device.switching_ns + device.idle_ns == device.clock_ns - device.started_ns
