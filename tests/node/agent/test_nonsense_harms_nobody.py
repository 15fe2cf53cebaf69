import json
import os
import socket
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pillion_node import pages
from pillion_node.pages import MAGIC, PROTOCOL, Kind

RELAXED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
HELLO = struct.pack("=8I", MAGIC, PROTOCOL, Kind.HELLO, 0, 0, 0, 0, 0)

words = st.lists(st.integers(0, 2**32 - 1), min_size=8, max_size=8).map(lambda each: struct.pack("=8I", *each))
almost = st.tuples(st.integers(0, 7), st.integers(0, 2**32 - 1)).map(
    lambda change: HELLO[: change[0] * 4] + struct.pack("=I", change[1]) + HELLO[change[0] * 4 + 4 :]
)
messages = st.one_of(st.binary(min_size=1, max_size=400), words, almost)


def is_answered(connection, layout):
    """Whether the agent hangs up on, or refuses, what this process sent: it is nobody's."""
    connection.settimeout(20)
    try:
        data, descriptors = pages.receive(connection)
    except ConnectionResetError:
        return True
    for descriptor in descriptors:
        os.close(descriptor)
    return not data or layout.unpack(data)["kind"] == Kind.REFUSED


@RELAXED
@given(sent=st.lists(messages, min_size=1, max_size=3), given_along=st.integers(0, 4))
def test_whatever_is_sent_the_agent_goes_on_and_keeps_no_descriptor(
    agent, layout, eventually, descriptors, sent, given_along
):
    assert agent.status()["pid"] == os.getpid()
    held = [os.memfd_create("x") for _ in range(given_along)]
    before = descriptors()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(str(agent.directory / "gate.sock"))
        try:
            for each in sent:
                pages.send(connection, each, held)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert is_answered(connection, layout)
    for each in held:
        os.close(each)
    eventually(lambda: descriptors() == before - given_along)
    assert agent.tenants() == {}


@RELAXED
@given(line=st.one_of(
    st.binary(max_size=300).filter(lambda line: b"\n" not in line),
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=20),
                 lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
                 ).map(lambda value: json.dumps(value).encode()),
    st.fixed_dictionaries({"op": st.sampled_from(["register", "unregister"])}, optional={
        "gpu": st.integers() | st.text(max_size=3), "policy": st.dictionaries(st.text(max_size=20), st.text(max_size=5)) | st.integers(),
        "name": st.integers() | st.text(max_size=5), "pod": st.integers(), "tenant": st.text(max_size=5)}
        ).map(lambda value: json.dumps(value).encode()),
))  # fmt: skip
def test_whatever_is_asked_gets_an_answer_that_says_no(agent, line):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(agent.directory / "control.sock"))
        connection.settimeout(20)
        connection.sendall(line + b"\n")
        answer = json.loads(connection.makefile("rb").readline())
    assert answer["ok"] is False
    assert answer["error"]
    assert agent.tenants() == {}


def test_a_request_without_end_is_hung_up_on(agent):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(agent.directory / "control.sock"))
        connection.settimeout(20)
        try:
            while True:
                connection.sendall(b"x" * 4096)
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert agent.tenants() == {}


@pytest.mark.parametrize("field", ["in_flight", "waiting", "acknowledged_epoch", "device_ns", "flags", "submissions"])
def test_a_page_full_of_lies_costs_nobody_else_the_gpu(gate, agent, eventually, field):
    liar, honest = gate("normal"), gate("normal")
    liar.do("join()")
    honest.do("join()")
    largest = "2**32 - 1" if field in {"in_flight", "waiting", "flags"} else "2**64 - 1"
    liar.do("client.__setitem__('waiting', 1)")
    liar.do(f"client.__setitem__({field!r}, {largest})")
    honest.do("client.__setitem__('waiting', 1)")
    eventually(lambda: honest.do("lease['state']") == pages.State.RUN)
    assert agent.status()["pid"] == os.getpid()


def test_a_scribbled_ledger_harms_only_its_own_tenant(gate, agent):
    scribbler, other = gate("low"), gate("low")
    scribbler.do("join()")
    other.do("join()")
    scribbler.do("[ledger.set_item('bytes', slot, 2**64 - 1) for slot in range(510)] and None")
    scribbler.do("ledger.__setitem__('slots', 2**64 - 1)")
    tenants = agent.tenants()
    assert tenants[scribbler.tenant]["ledger_bytes"] == 64 << 20
    assert tenants[other.tenant]["ledger_bytes"] == 0
    assert other.do("ledger.item('bytes', 0)") == 0


def test_a_log_that_cannot_be_written_stops_nothing(agent_in, directory, gate_in):
    running = agent_in(directory)
    for number in range(2):
        gate_in(directory, "low").do("join()")
        if not number:
            os.close(running.log)  # nobody reads it any more
    assert running.status()["log_lines_lost"] > 0
    assert len(running.tenants()) == 2
