import os
import subprocess
import sys

import pytest

from pillion.policy import Policy, Terms, Tier, resolve
from pillion.policy.units import read_memory
from pillion_node.agent import identity
from pillion_node.agent.duty import Duty, share_out
from pillion_node.agent.identity import Pod

UID = "0f7ca7a4-1b2c-4d5e-8f90-a1b2c3d4e5f6"
CONTAINER = "ab" * 32

GROUPS = {
    "v2, systemd": f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope\n",
    "v2, cgroupfs": f"0::/kubepods/besteffort/pod{UID}/{CONTAINER}\n",
    "v1": f"12:memory:/kubepods/pod{UID}/{CONTAINER}\n11:cpu:/kubepods/pod{UID}/{CONTAINER}\n0::/system.slice/x\n",
    "guaranteed, crio": f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/crio-{CONTAINER}.scope\n",
}


@pytest.mark.parametrize("text", GROUPS.values(), ids=GROUPS)
def test_a_pods_container_is_found_whatever_made_its_group(text):
    assert identity.pod_in(text) == Pod(UID, CONTAINER)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0::/\n",
        "0::/user.slice/user-1000.slice/session-2.scope\n",
        "0::/podium/tripod\n",
        "0::/kubepods/podnothex/ab\n",
    ],
)
def test_outside_a_pod_there_is_none(text):
    assert identity.pod_in(text) is None


def test_a_static_pods_uid_is_a_hash():
    assert identity.pod_in(f"0::/kubepods/pod{'c' * 32}/{CONTAINER}") == Pod("c" * 32, CONTAINER)


def test_ancestry_goes_from_a_process_to_those_that_started_it():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        chain = list(identity.ancestry(child.pid))
        assert [process.pid for process in chain[:2]] == [child.pid, os.getpid()]
        assert chain[1] == identity.process(os.getpid())
    finally:
        child.communicate()
    assert identity.process(child.pid) is None
    assert list(identity.ancestry(child.pid)) == []


def policy(tier, share=None) -> Policy:
    return resolve(Terms(tier=tier, share_milli=share, memory=read_memory("1Gi")))


def test_parts_of_the_period_do_not_overlap_and_add_up():
    found = share_out([
        ("high", policy(Tier.HIGH, 500)), ("a", policy(Tier.NORMAL, 300)), ("b", policy(Tier.NORMAL, 100)),
        ("guest", policy(Tier.LOW)), ("friend", policy(Tier.LOW, 300)),
    ])  # fmt: skip
    assert found == {
        "a": Duty(712_500, 0),
        "b": Duty(237_500, 712_500),
        "friend": Duty(37_500, 950_000),
        "guest": Duty(12_500, 987_500),
    }


def test_who_is_alone_has_the_whole_period():
    assert share_out([("a", policy(Tier.NORMAL, 10)), ("h", policy(Tier.HIGH, 10))]) == {"a": Duty(1_000_000, 0)}
    assert share_out([("g", policy(Tier.LOW))]) == {"g": Duty(1_000_000, 0)}
    assert share_out([]) == {}
