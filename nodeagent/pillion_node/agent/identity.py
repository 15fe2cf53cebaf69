"""Who a process is, as the kernel says: nothing here comes from the process itself."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_SO_PEERPIDFD = 77  # Linux 6.5
_CREDENTIALS = struct.Struct("3i")
_DEEPEST_CHAIN = 256
_PROC = Path("/proc")
# kubepods-besteffort-pod0f7ca7a4_….slice/cri-containerd-<64 hex digits>.scope, or the same with slashes and dashes
_POD = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?=[./]|$)")
_CONTAINER = re.compile(r"([0-9a-f]{64})(?:\.scope)?$")


class Process(NamedTuple):
    """One process for good: a number that is used again started at another time."""

    pid: int
    started_ticks: int


class Pod(NamedTuple):
    """A pod's container, as the kubelet named its control group."""

    uid: str
    container: str


class Peer(NamedTuple):
    """The other end of a unix socket when it connected."""

    pid: int
    uid: int


def peer_of(connection: socket.socket) -> Peer:
    """Return who connected."""
    pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return Peer(pid, uid)


def pidfd_of(connection: socket.socket, peer: Peer) -> int:
    """Return a descriptor that becomes readable when the process that connected ends.

    Raises:
        OSError: It has ended.
    """
    with contextlib.suppress(OSError):
        return connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    return os.pidfd_open(peer.pid)


def _stat(pid: int) -> tuple[int, int] | None:
    """Return a process's parent and when it started, or None if it is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name before may hold anything
    if fields[0] in ("Z", "X"):
        return None
    return int(fields[1]), int(fields[19])


def process(pid: int) -> Process | None:
    """Return the process that has this number now, or None."""
    found = _stat(pid)
    return Process(pid, found[1]) if found else None


def ancestry(pid: int) -> Iterator[Process]:
    """Yield a process, its parent, its parent's parent, as long as they live."""
    for _ in range(_DEEPEST_CHAIN):
        found = _stat(pid) if pid > 0 else None
        if found is None:
            return
        yield Process(pid, found[1])
        pid = found[0]


def pod_in(control_groups: str) -> Pod | None:
    """Return the pod and container that a /proc/PID/cgroup names, of either version and driver; None outside a pod."""
    for line in control_groups.splitlines():
        path = line.split(":", 2)[-1]
        pod = _POD.search(path)
        if pod is None:
            continue
        container = _CONTAINER.search(path[pod.end() :])
        return Pod(pod[1].replace("_", "-"), container[1] if container else "")
    return None


def pod_of(pid: int) -> Pod | None:
    """Return the pod that a process is in, or None."""
    try:
        return pod_in((_PROC / str(pid) / "cgroup").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def boot_id() -> str:
    """Return what changes when the machine boots: process numbers from before mean nothing."""
    return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
