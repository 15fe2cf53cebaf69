import os
import select
import signal

import pytest

from pillion_node import pages
from pillion_node.pages import GateTier, Kind, Refusal, State


def test_a_process_of_a_tenant_is_let_in_with_its_terms(gate, agent, eventually):
    high = gate("high", **{"pillion.dev/max-slowdown": "2%", "pillion.dev/max-stall": "5ms"})
    low = gate("low")
    assert high.do("join()")["tier"] == GateTier.HIGH
    assert low.do("join()")["tier"] == GateTier.LOW
    eventually(lambda: high.do("lease['state']") == State.RUN)
    assert low.do("lease['memory_quota_bytes']") == 64 << 20
    assert high.do("lease['memory_quota_bytes']") == (1 << 30) * 400 // 1000  # share × device memory
    eventually(lambda: low.do("lease['max_slowdown_ppm']") == 20_000)
    assert low.do("lease['max_stall_ns']") == 5_000_000
    assert low.do("lease['switch_ns'], lease['slice_ns']") == [50_000, 2_000_000]
    assert {tenant["lease"]["open"] for tenant in agent.tenants().values()} == {False}


def test_alone_on_a_gpu_the_gate_is_open_until_somebody_comes(gate, eventually):
    first = gate("normal")
    first.do("join()")
    eventually(lambda: first.do("lease['open']") == 1)
    second = gate("low")
    second.do("join()")
    eventually(lambda: first.do("lease['open']") == 0)
    second.kill()
    eventually(lambda: first.do("lease['open']") == 1)
    assert first.do("lease['openings']") == 2


def test_a_process_that_is_limited_is_never_let_pass_unseen(gate, agent, eventually):
    limited = gate("normal", **{"pillion.dev/limit": "0.5"})
    limited.do("join()")
    eventually(lambda: agent.tenants()[limited.tenant]["processes"])
    assert limited.do("lease['open']") == 0


def test_one_process_at_a_time_has_the_lower_lease(gate, eventually):
    gates = [gate("normal"), gate("normal")]
    for each in gates:
        each.do("join()")
        each.do("client.__setitem__('waiting', 1)")
    seen = set()

    def both_had_it():
        states = tuple(each.do("lease['state']") for each in gates)
        seen.add(states)
        # A look at two pages, one after the other, may fall on a change; that is why acknowledgement exists.
        return {(State.RUN, State.STOP), (State.STOP, State.RUN)} <= seen

    eventually(both_had_it)


def test_a_lease_is_not_handed_on_before_the_last_holder_has_drained(gate, eventually):
    holder, next_ = gate("normal"), gate("normal")
    for each in (holder, next_):
        each.do("join()")
    holder.do("client.__setitem__('in_flight', 3)")
    eventually(lambda: holder.do("lease['state']") == State.RUN)
    epoch = holder.do("lease['epoch']")
    holder.do("client.__setitem__('acknowledged_epoch', lease['epoch'])")
    next_.do("client.__setitem__('waiting', 1)")
    eventually(lambda: holder.do("lease['epoch']") > epoch)
    # It never says that it has drained, so the next one gets the lease when the drain has timed out, and not before.
    eventually(lambda: next_.do("lease['state']") == State.RUN)
    assert holder.do("lease['state']") == State.STOP


def test_lower_tiers_see_the_marks_of_high_steps_and_forget_them(gate, eventually):
    low, high = gate("low"), gate("high")
    low.do("join()")
    high.do("join()")
    shown = low.do("[receive()[0], len(kept[-1])]")
    assert (shown[0]["kind"], shown[0]["present"], shown[1]) == (Kind.ACTIVITY, 1, 1)
    low.do("globals().__setitem__('marks', pages.Page(layout, 'activity', kept[-1][0], writable=False))")
    high.do("activity.__setitem__('marks', 41)")
    assert low.do("marks['marks']") == 41
    later = gate("low")
    assert later.do("join()")["kind"] == Kind.WELCOME
    assert later.do("receive()[0]")["slot"] == shown[0]["slot"]
    high.kill()

    def withdrawn():
        message = low.do("receive()[0]")
        return message["kind"] == Kind.ACTIVITY and not message["present"]

    eventually(withdrawn)


def test_nobody_but_the_high_process_can_write_its_marks(gate):
    low, high = gate("low"), gate("high")
    low.do("join()")
    high.do("join()")
    low.do("receive()[0]")
    low.process.stdin.write("pages.Page(layout, 'activity', kept[-1][0])\n")
    low.process.stdin.flush()
    assert low._hear()[0] == "PermissionError"


def test_nobody_but_the_agent_can_write_a_lease(gate):
    each = gate("low")
    each.do("join()")
    each.process.stdin.write("pages.Page(layout, 'lease', kept[0][0])\n")
    each.process.stdin.flush()
    assert each._hear()[0] == "PermissionError"


def test_a_high_step_that_says_busy_without_work_is_not_believed(gate, agent, eventually):
    low, high = gate("low"), gate("high")
    low.do("join()")
    high.do("join()")
    high.do("[activity.set_item('mark', 0, 3), activity.__setitem__('marks', 1)]")
    eventually(lambda: agent.tenants()[high.tenant]["processes"][0]["distrusted"])
    messages = [low.do("receive()[0]") for _ in range(2)]
    assert [(m["kind"], m["present"]) for m in messages] == [(Kind.ACTIVITY, 1), (Kind.ACTIVITY, 0)]


def test_a_process_that_is_nobodys_is_refused(gate, agent):
    stranger = gate()
    stranger.do("[connect(), hello()]")
    refused = stranger.do("receive()[0]")
    assert (refused["kind"], refused["reason"]) == (Kind.REFUSED, Refusal.UNKNOWN)


def test_another_version_is_refused_with_the_agents(gate):
    newer = gate("low")
    newer.do("[connect(), hello(version=7)]")
    refused = newer.do("receive()[0]")
    assert (refused["kind"], refused["reason"], refused["version"]) == (Kind.REFUSED, Refusal.VERSION, pages.PROTOCOL)


POINTS = {
    "after connecting": "connect()",
    "after its hello": "[connect(), hello()]",
    "after its welcome": "[connect(), hello(), welcome()]",
    "after its pages are mapped": "join()",
    "while it waits": "[join(), client.__setitem__('waiting', 1)]",
    "with work on the GPU": "[join(), client.__setitem__('in_flight', 5)]",
    "with memory": "[join(), ledger.set_item('bytes', 0, 1 << 20)]",
}


@pytest.mark.parametrize("tier", ["high", "normal", "low"])
@pytest.mark.parametrize("point", POINTS)
def test_a_client_that_dies_leaves_nothing_behind(gate, agent, eventually, descriptors, tier, point):
    other = gate("normal")
    other.do("join()")
    other.do("client.__setitem__('waiting', 1)")
    eventually(lambda: other.do("lease['state']") == State.RUN or other.do("lease['open']"))
    before = len(agent.tenants()), agent.status()["gates"]["members"]
    held = descriptors()
    dying = gate(tier)
    dying.do(POINTS[point])
    os.kill(dying.pid, signal.SIGKILL)
    eventually(lambda: (len(agent.tenants()), agent.status()["gates"]["members"]) == before)
    dying.process.communicate()
    eventually(lambda: descriptors() == held)
    eventually(lambda: other.do("lease['open']") == 1)
    assert [file.name for file in (agent.directory / "tenants").iterdir()] == [f"{other.tenant}.json"]


def test_a_gate_that_comes_back_keeps_its_place(gate, agent):
    each = gate("low")
    assert each.do("join()")["slot"] == 0
    each.do("ledger.set_item('bytes', 0, 4096)")
    assert each.do("[held.close(), join()['slot']]")[1] == 0
    assert agent.tenants()[each.tenant]["ledger_bytes"] == 4096


# Forks that join one after the other, and stay.
SWARM = """
import os, signal
def swarm(count):
    slots = []
    for _ in range(count):
        r, w = os.pipe()
        if os.fork() == 0:
            found = join_again()
            os.write(w, str(found["slot"] if found["kind"] == Kind.WELCOME else -found["reason"]).encode())
            signal.pause()
        os.close(w)
        slots.append(int(os.read(r, 16)))
        os.close(r)
    return slots
def join_again():
    connect(); hello()
    return receive()[0]
"""

# Forks that are a tenant each, join and end.
CROWD = """
import os
def crowd(count):
    low = {"pillion.dev/priority": "low", "pillion.dev/memory": "1Mi"}
    joined = 0
    for _ in range(count):
        child = os.fork()
        if child == 0:
            Client(directory).ask(op="register", policy=low, gpu=0)
            os._exit(0 if join()["kind"] == Kind.WELCOME else 1)
        joined += os.waitpid(child, 0)[1] == 0
    return joined
"""


def test_a_tenant_has_as_many_processes_as_a_ledger_has_slots(gate):
    parent = gate("low")
    parent.do(f"exec({SWARM!r})")
    assert parent.do("swarm(511)") == [*range(510), -Refusal.FULL]


def test_a_thousand_tenants_come_and_go_and_leave_nothing(gate, agent, eventually, descriptors):
    parent = gate()
    assert agent.tenants() == {}
    before = descriptors()
    parent.do(f"exec({CROWD!r})")
    assert parent.do("crowd(1000)") == 1000
    eventually(lambda: not agent.tenants())
    assert agent.status()["gates"]["members"] == 0
    eventually(lambda: descriptors() == before)
    assert list((agent.directory / "tenants").iterdir()) == []


def test_a_process_is_not_let_in_faster_than_anybody_would_need(gate, agent):
    flooding = gate("low")
    flooding.do("[knock() for _ in range(300)] and None")
    other = gate("high")
    assert other.do("join()")["kind"] == Kind.WELCOME
    assert agent.status()["gates"]["refused"]["flood"] > 200


def test_a_connection_that_says_nothing_is_closed(agent_in, directory, stranger):
    agent_in(directory, hello_timeout_ns=50_000_000)
    silent = stranger()
    assert select.select([silent], [], [], 10)[0]
    assert silent.recv(1) == b""


def test_who_speaks_out_of_turn_is_hung_up_on(gate, agent, eventually):
    each = gate("low")
    each.do("join()")
    each.do("mapped()")
    eventually(lambda: not agent.tenants()[each.tenant]["processes"][0]["present"])


def test_an_activity_page_that_could_shrink_is_refused(gate):
    high = gate("high")
    high.do("connect()")
    high.do("hello([__import__('os').memfd_create('x')])")
    assert high.do("receive()[0]")["kind"] == Kind.REFUSED


def test_the_socket_is_there_for_everybody_and_the_control_socket_is_not(agent):
    assert (agent.directory / "gate.sock").stat().st_mode & 0o777 == 0o666
    assert (agent.directory / "control.sock").stat().st_mode & 0o777 == 0o600
