import os
import select
import signal
import subprocess
import sys

import pytest

from pillion_node.agent import AgentError
from pillion_node.local import Client
from pillion_node.pages import GateTier, Kind


@pytest.fixture
def start(environment, directory):
    """A function that starts an agent as a process, and waits until it listens or has ended."""
    started = []

    def run():
        reading, writing = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-m", "pillion_node.agent", "--directory", str(directory), "--ready-fd", str(writing)],
            env=environment, stderr=subprocess.PIPE, text=True, pass_fds=(writing,),
        )  # fmt: skip
        os.close(writing)
        started.append(process)
        with os.fdopen(reading) as ready:
            process.listens = ready.readline() == "ready\n"
        return process

    yield run
    for each in started:
        each.kill()
        each.wait()
        each.stderr.close()


def test_the_second_agent_of_a_directory_refuses_and_the_first_goes_on(start, directory):
    first, second = start(), start()
    assert (first.listens, second.listens) == (True, False)
    _, errors = second.communicate()
    assert second.returncode == 1
    assert f"an agent already runs in {directory} (process {first.pid})" in errors
    assert Client(directory).ask(op="status")["status"]["pid"] == first.pid


def test_sockets_that_a_killed_agent_left_are_replaced(start, directory):
    first = start()
    first.kill()
    first.wait()
    assert (directory / "gate.sock").exists()
    second = start()
    assert second.listens
    assert Client(directory).ask(op="status")["status"]["pid"] == second.pid


def test_an_agent_that_is_asked_to_end_takes_its_sockets_with_it(start, directory):
    first = start()
    first.send_signal(signal.SIGTERM)
    assert first.wait(20) == 0
    assert not (directory / "gate.sock").exists()


def test_an_agent_may_be_asked_to_end_again_after_it_has_ended(agent_in, directory):
    agent = agent_in(directory)
    agent.stop()
    agent.agent.stop()


def test_the_next_agent_lets_the_same_processes_in_again_on_the_same_terms(start, directory, gate_in, eventually):
    first = start()
    high, low = gate_in(directory, "high"), gate_in(directory, "low")
    high.do("join()")
    low.do("join()")
    high.do("activity.__setitem__('marks', 7)")
    first.kill()
    first.wait()
    assert start().listens
    # Low asks first, and is let in after high: it would think itself alone before.
    low.do("[connect(), hello()]")
    high.do("connect()")
    high.do("hello([activity.fd])")
    again = high.do("welcome()")
    assert (again["kind"], again["tier"]) == (Kind.WELCOME, GateTier.HIGH)
    assert high.do("len(kept[-1])") == 3  # it keeps the page it brought
    assert low.do("welcome()")["kind"] == Kind.WELCOME
    shown = low.do("receive()[0]")
    assert (shown["kind"], shown["present"]) == (Kind.ACTIVITY, 1)
    assert low.do("pages.Page(layout, 'activity', kept[-1][0], writable=False)['marks']") == 7
    status = Client(directory).ask(op="status")["status"]
    assert [tenant["id"] for tenant in status["gpus"][0]["tenants"]] == sorted([high.tenant, low.tenant])


def test_lower_tiers_do_not_wait_for_ever_for_a_high_step_that_does_not_come_back(start, directory, gate_in):
    first = start()
    high, low = gate_in(directory, "high"), gate_in(directory, "low")
    high.do("join()")
    low.do("join()")
    first.kill()
    first.wait()
    assert start().listens
    assert low.do("[connect(), hello(), welcome()]")[2]["kind"] == Kind.WELCOME


def test_a_tenant_whose_owner_ended_meanwhile_is_forgotten(start, directory, gate_in):
    first = start()
    gone = gate_in(directory, "low")
    gone.do("join()")
    first.kill()
    first.wait()
    gone.kill()
    assert start().listens
    assert Client(directory).ask(op="status")["status"]["gpus"][0]["tenants"] == []
    assert list((directory / "tenants").iterdir()) == []


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"boot": 1}', "\0\xff", '{"policy": {"pillion.dev/share": "7"}}'])
def test_a_tenants_file_that_is_spoilt_stops_nobody(start, directory, content):
    (directory / "tenants").mkdir()
    (directory / "tenants" / "x.json").write_text(content)
    assert start().listens
    assert Client(directory).ask(op="status")["status"]["gpus"][0]["tenants"] == []


def test_without_an_agent_each_tenant_has_its_own_part_of_every_period(agent, gate, eventually):
    gates = {name: gate(tier) for name, tier in {"a": "normal", "b": "normal", "c": "low"}.items()}
    for each in gates.values():
        each.do("join()")

    def parts():
        found = [each.do("lease['duty_phase_ppm'], lease['duty_ppm']") for each in gates.values()]
        return sorted(map(tuple, found)) if sum(part for _, part in found) == 1_000_000 else None

    first, second, third = eventually(parts)
    assert (first, second, third) == ((0, 475_000), (475_000, 475_000), (950_000, 50_000))


def test_the_heartbeat_goes_on(agent, gate, eventually):
    each = gate("low")
    each.do("join()")
    before = each.do("lease['heartbeat_ns']")
    eventually(lambda: each.do("lease['heartbeat_ns']") > before)
    assert each.do("lease['stale_after_ns']") == 1_000_000_000


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_directory_that_others_may_write_to_is_refused(agent_in, directory, mode):
    directory.chmod(mode)
    with pytest.raises(AgentError, match="nobody else may write"):
        agent_in(directory)


def test_a_high_programs_steps_go_on_while_the_agent_is_dead(execute, directory):
    high = execute("--priority", "high", "--share", "0.5", script="""
        context()
        function = kernel(b"k_500us")
        def step():
            launch(function, 4)
            ok(d.cuCtxSynchronize())
        step(); say("first")
        heard()
        for _ in range(50): step()
        say("done")
        heard()
    """)  # fmt: skip
    high.hear()
    holder = Client(directory).ask(op="status")["status"]["pid"]
    # Stopped, not killed: its socket stays, so only the heartbeat tells, and nobody starts another one.
    pidfd = os.pidfd_open(holder)
    os.kill(holder, signal.SIGSTOP)
    high.tell()
    assert high.hear() == "done"
    os.kill(holder, signal.SIGKILL)
    select.select([pidfd], [], [], 20)
    os.close(pidfd)
    high.tell()
    assert high.finish()[0] == 0
