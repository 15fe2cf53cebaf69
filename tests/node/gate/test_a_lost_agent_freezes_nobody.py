"""Whatever happens to the agent, at whatever point: nobody is killed, nobody waits for ever, and a new agent takes over."""

import contextlib
import os
import socket
import tempfile
import time
from pathlib import Path

import pytest

from pillion_node import pages
from pillion_node.pages import ClientFlag, GateTier, Kind, Refusal, State

LOOP = """
context(); f = kernel(b"k_10us"); say("up"); stop = False
def listen():
    global stop
    heard(); stop = True
threading.Thread(target=listen, daemon=True).start(); n = 0
while not stop:
    launch(f); n += 1
ok(d.cuCtxSynchronize()); say(n > 0)
"""


@pytest.mark.parametrize("tier", [GateTier.LOW, GateTier.NORMAL])
def test_a_lower_tier_goes_on_in_its_part_of_each_period(tier, run, agent_at, eventually):
    agent = agent_at(tier=tier, state=State.STOP, duty_ppm=300_000, duty_phase_ppm=500_000, duty_period_ns=40_000_000)
    program = run(LOOP, agent=agent)
    assert program.hear() == "up"
    member = agent.member()
    eventually(lambda: member.client["waiting"] == 1, "a launch that is held")
    before = member.client["submissions"]
    agent.die()
    eventually(lambda: member.client["submissions"] > before + 20, "launches without an agent")
    assert member.client["flags"] & ClientFlag.ORPHAN
    places, last = [], 0
    while len(places) < 200:
        last = eventually(lambda: (now := member.client["last_submit_ns"]) != last and now, "another launch")  # noqa: B023
        places.append(last % 40_000_000)
    assert all(19_000_000 <= place <= 33_000_000 for place in places), "it keeps to its part"
    program.tell(0)
    assert program.finish() == [True]


def test_one_that_was_given_no_part_takes_a_small_one(run, agent_at, eventually):
    agent = agent_at(state=State.STOP)
    program = run("context(); f = kernel(b'k_10us'); say('up'); launch(f); say('went')", agent=agent)
    assert program.hear() == "up"
    member = agent.member()
    eventually(lambda: member.client["waiting"] == 1, "a launch that is held")
    agent.die()
    assert program.finish() == ["went"]


def test_an_agent_that_hangs_is_lost_too_and_comes_back_with_its_heartbeat(run, agent_at, eventually):
    agent = agent_at(
        state=State.STOP,
        stale_after_ns=200_000_000,
        heartbeat_ns=time.monotonic_ns(),
        duty_ppm=500_000,
        duty_period_ns=10_000_000,
    )
    program = run(LOOP, agent=agent)
    assert program.hear() == "up"
    member = agent.member()
    eventually(lambda: member.client["submissions"] > 10, "launches although the agent hangs")
    member.lease.update(stale_after_ns=10**15)
    member.beat()
    eventually(
        lambda: member.client["waiting"] == 1 and not member.client["flags"] & ClientFlag.ORPHAN,
        "the agent's word to hold again",
    )
    member.grant(State.RUN)
    program.tell(0)
    assert program.finish() == [True]


def test_an_open_gate_stays_open(run, agent_at):
    agent = agent_at(open_=True)
    program = run(
        "context(); f = kernel(b'k_10us'); say(0); heard(); launch(f, times=100); ok(d.cuCtxSynchronize()); say(1)",
        agent=agent,
    )
    assert program.hear() == 0
    agent.member()
    agent.die()
    program.tell(0)
    assert program.finish() == [1]


@pytest.mark.parametrize("tier", list(GateTier))
def test_a_new_agent_adopts_running_processes(tier, run, agent_at, eventually):
    agent = agent_at(tier=tier, memory_quota_bytes=64 << 20, duty_ppm=900_000, duty_period_ns=1_000_000)
    program = run(LOOP.replace("context();", "context(); keep = ok(d.cuMemAlloc(5 << 20));"), agent=agent)
    assert program.hear() == "up"
    first = agent.member()
    agent.die()
    successor = agent_at(Path(agent.path).name, tier=tier, memory_quota_bytes=64 << 20)
    second = successor.member()
    assert second.pid == program.process.pid
    eventually(lambda: successor.ledger.item("bytes", second.slot) == 5 << 20, "its memory in the new ledger")
    if tier == GateTier.HIGH:
        assert os.fstat(second.activity.fd).st_ino == os.fstat(first.activity.fd).st_ino, (
            "its activity page goes with it"
        )
        marks = second.activity["marks"]
        assert second.activity.item("mark", (marks - 1) % 64) & 1, "it is still busy"
    else:
        eventually(lambda: second.client["submissions"] > 10, "launches under the new agent")
    program.tell(0)
    assert program.finish() == [True]


def test_high_never_waits_whatever_its_lease_says(run, agent_at):
    agent = agent_at(tier=GateTier.HIGH, state=State.STOP)
    program = run(
        "context(); f = kernel(b'k_10us'); launch(f, times=50); ok(d.cuCtxSynchronize()); say(1)", agent=agent
    )
    assert program.finish() == [1]


# ---- an agent that ends, or talks nonsense, at each point of joining


def hang_up(connection, hello):
    connection.close()


def answer(data, descriptors=()):
    def send(connection, hello):
        pages.send(connection, data(hello) if callable(data) else data, descriptors)
        connection.recv(1)

    return send


def nonsense(layout):
    page = pages.create_page(layout, "lease").fd
    short = os.memfd_create("short")
    welcome = layout.pack(Kind.WELCOME, tier=0)
    null = os.open("/dev/null", os.O_RDWR)
    return {
        "hangs up": hang_up,
        "says nothing and hangs up later": lambda connection, hello: time.sleep(0.7),
        "one byte": answer(b"x"),
        "too long": answer(welcome + b"\0"),
        "all zeros": answer(b"\0" * len(welcome)),
        "random": answer(os.urandom(len(welcome))),
        "unknown kind": answer(welcome[:8] + b"\x63\0\0\0" + welcome[12:]),
        "welcome without pages": answer(welcome),
        "welcome with a page too few": answer(welcome, [page, page]),
        "welcome with short pages": answer(welcome, [short, short, short]),
        "welcome with files that cannot be mapped": answer(welcome, [null, null, null]),
        "welcome with the wrong page": answer(
            welcome, [pages.create_page(layout, "client").fd] + [os.memfd_create("z")] * 2
        ),
        "unknown tier": answer(layout.pack(Kind.WELCOME, tier=9), [page] * 3),
        "slot beyond the ledger": answer(layout.pack(Kind.WELCOME, slot=510), [page] * 3),
        "another version of the protocol": answer(welcome[:4] + b"\x02\0\0\0" + welcome[8:], [page] * 3),
        "more descriptors than any message has": answer(welcome, [null] * 20),
    }


NONSENSE = [
    "hangs up", "says nothing and hangs up later", "one byte", "too long", "all zeros", "random", "unknown kind",
    "welcome without pages", "welcome with a page too few", "welcome with short pages",
    "welcome with files that cannot be mapped", "welcome with the wrong page", "unknown tier", "slot beyond the ledger",
    "another version of the protocol", "more descriptors than any message has",
]  # fmt: skip


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_while_joining_leaves_the_gate_open(what, run, agent_at, layout):
    agent = agent_at()
    agent.answer = nonsense(layout)[what]
    program = run("""
context(); f = kernel(b"k_10us"); launch(f, times=10); ok(d.cuCtxSynchronize()); say(len(os.listdir("/proc/self/fd")) < 40)
""", agent=agent)  # fmt: skip
    assert program.finish() == [True]


def test_nonsense_later_counts_as_a_lost_agent_and_the_gate_joins_again(run, agent_at, eventually):
    agent = agent_at(duty_ppm=100_000, duty_period_ns=10_000_000)
    program = run(LOOP, agent=agent)
    assert program.hear() == "up"
    first = agent.member()
    pages.send(first.connection, b"nonsense")
    assert first.gone.wait(20)
    second = agent.member(1)
    eventually(lambda: second.client["submissions"] > 10, "launches after joining again")
    program.tell(0)
    assert program.finish() == [True]


@pytest.mark.parametrize("reason", list(Refusal))
def test_a_refused_gate_is_open(reason, run, agent_at, layout):
    agent = agent_at()

    def refuse(connection, hello):
        message = bytearray(layout.pack(Kind.REFUSED, reason=reason))
        message[4:8] = (7).to_bytes(4, "little")  # an agent of another version says which
        pages.send(connection, bytes(message))
        connection.recv(1)

    agent.answer = refuse
    program = run(
        "context(); f = kernel(b'k_10us'); launch(f, times=10); ok(d.cuCtxSynchronize()); say(1)", agent=agent
    )
    assert program.finish() == [1]


def test_a_process_that_was_let_in_and_is_then_refused_goes_on_unheld(run, agent_at, layout, eventually):
    agent = agent_at(state=State.STOP)
    program = run("context(); f = kernel(b'k_10us'); say('up'); launch(f); say('went')", agent=agent)
    assert program.hear() == "up"
    member = agent.member()
    eventually(lambda: member.client["waiting"] == 1, "a launch that is held")
    pages.send(member.connection, layout.pack(Kind.REFUSED, reason=Refusal.VERSION))
    assert program.finish() == ["went"]


def test_an_agent_that_dies_while_it_writes_a_lease_leaves_the_last_whole_one(run, agent_at, eventually):
    agent = agent_at()
    program = run("context(); f = kernel(b'k_10us'); say('up'); heard(); launch(f); say(1)", agent=agent)
    assert program.hear() == "up"
    member = agent.member()
    member.lease["sequence"] |= 1
    member.lease["state"] = State.STOP
    member.lease["news"] += 1
    program.tell(0)
    assert program.finish() == [1]


def test_a_full_queue_of_connections_delays_no_start(run, layout, tmp_path_factory):
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as deaf:
        deaf.bind(f"{folder}/s")
        deaf.listen(0)
        crowd = []
        for _ in range(4):
            one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
            with contextlib.suppress(BlockingIOError):
                one.connect(f"{folder}/s")
            crowd.append(one)

        class Deaf:
            path = f"{folder}/s"

        program = run("context(); f = kernel(b'k_10us'); launch(f); ok(d.cuCtxSynchronize()); say(1)", agent=Deaf)
        assert program.finish() == [1]
        for one in crowd:
            one.close()


def test_a_program_that_closes_all_descriptors_joins_again_and_its_own_stay_its_own(run, agent_at, eventually):
    agent = agent_at(duty_ppm=100_000, duty_period_ns=10_000_000)
    program = run("""
context(); f = kernel(b"k_10us"); say("up"); heard()
os.closerange(3, 4096)
mine = [os.pipe() for _ in range(600)]
for _, to in mine: os.write(to, b"mine")
say("closed"); heard()
assert all(os.read(source, 9) == b"mine" for source, _ in mine)
launch(f, times=10); say("fine")
""", agent=agent)  # fmt: skip
    assert program.hear() == "up"
    agent.member()
    program.tell(0)
    assert program.hear() == "closed"
    agent.member(1)
    program.tell(0)
    assert program.finish() == ["fine"]
