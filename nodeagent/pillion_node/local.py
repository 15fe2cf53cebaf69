"""Running a command on this machine's GPU under a policy: what `pillion exec` does."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pillion_node import gate
from pillion_node.agent.config import (
    DIRECTORY_VARIABLE,
    GATE_LIBRARY_VARIABLE,
    NODE_DIRECTORY,
    AgentError,
    default_directory,
    prepare_directory,
)

EMULATED_VARIABLE = "PILLION_EMULATED_GPU"
OWN_FAILURE, CANNOT_RUN, NOT_FOUND = 125, 126, 127
"""Exit codes of nice(1) for its own failure, a command that cannot be run, and one that is not there."""

_IDLE_EXIT_S = 60
_ATTEMPTS = 5
_PR_SET_CHILD_SUBREAPER = 36
_FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2,
              signal.SIGALRM, signal.SIGWINCH)  # fmt: skip
_SI_KERNEL = 0x80  # sent by the terminal: the whole foreground group has it already
_CHANGED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def agent_directory() -> Path:
    """Return where the agent is that a command run here joins.

    A node's agent comes before any other, because gates go to it whatever their environment says. Emulated machines
    have an agent each.
    """
    if (NODE_DIRECTORY / "gate.sock").exists():
        return NODE_DIRECTORY
    directory = default_directory()
    emulated = os.environ.get(EMULATED_VARIABLE)
    if emulated and not os.environ.get(DIRECTORY_VARIABLE):
        directory /= "emulated-" + hashlib.sha256(os.fsencode(Path(emulated).resolve())).hexdigest()[:8]
    return directory


class Client:
    """A connection to an agent's control socket."""

    def __init__(self, directory: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(str(directory / "control.sock"))
        except OSError:
            self._socket.close()
            raise
        self._lines = self._socket.makefile("rb")

    def ask(self, **request: object) -> dict[str, Any]:
        """Return the agent's answer.

        Raises:
            AgentError: It refused; the message is its own.
            ConnectionError: It has gone.
        """
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        line = self._lines.readline()
        if not line:
            raise ConnectionResetError("the agent has gone")
        answer: dict[str, Any] = json.loads(line)
        if not answer.get("ok"):
            raise AgentError(str(answer.get("error", "the agent refused without a word")))
        return answer

    def wait_for_end(self) -> None:
        """Return when the agent has gone."""
        with contextlib.suppress(OSError):
            self._lines.read(1)

    def close(self) -> None:
        """Hang up."""
        self._lines.close()
        self._socket.close()


def start_agent(directory: Path) -> str:
    """Start an agent for this user in the background, and wait until it listens or has failed.

    Returns:
        Why it failed, in its own words; nothing if it listens.
    """
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    prepare_directory(directory)
    reading, writing = os.pipe()
    log = directory / "agent.log"
    with log.open("ab") as output:
        began = output.tell()
        process = subprocess.Popen(  # noqa: S603 - this package's own agent
            [sys.executable, "-m", "pillion_node.agent", "--directory", str(directory),
             "--idle-exit", str(_IDLE_EXIT_S), "--ready-fd", str(writing)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=output, pass_fds=(writing,),
            start_new_session=True, cwd="/",
        )  # fmt: skip
    os.close(writing)
    with os.fdopen(reading, "rb") as ready:
        if ready.readline():
            process.returncode = 0  # it outlives this process, which must not warn about that
            return ""
    process.wait()
    with log.open("rb") as written:
        written.seek(began)
        return written.read().decode(errors="replace").strip()


def _reach(directory: Path) -> Client | None:
    try:
        return Client(directory)
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    except PermissionError as error:
        raise AgentError(f"{directory} has an agent of another user; its owner decides who may use it") from error


def connect(directory: Path) -> Client:
    """Connect to the agent of a directory, starting one if none runs there.

    Raises:
        AgentError: There is none and none can be started.
    """
    reason = ""
    for _ in range(_ATTEMPTS):
        client = _reach(directory)
        if client is not None:
            return client
        if directory == NODE_DIRECTORY:
            raise AgentError(f"the node's agent in {directory} does not answer; its administrator can start it")
        reason = start_agent(directory)  # two at once: one of them fails, and finds the other's
    raise AgentError(f"no agent can be started: {reason or 'it ends as soon as it starts'}")


class Supervisor:
    """One command under a policy: registers it, starts it, hands signals on, and waits.

    Args:
        annotations: The policy.
        gpu: Index of the GPU.
        command: The program and its arguments.
    """

    def __init__(self, annotations: Mapping[str, str], gpu: int, command: Sequence[str]) -> None:
        self._command = list(command)
        self._request = {"op": "register", "policy": dict(annotations), "gpu": gpu, "name": Path(command[0]).name}
        self._gpu = gpu
        self._directory = agent_directory()
        self._client: Client | None = None

    def _register(self) -> None:
        for _ in range(_ATTEMPTS):
            client = connect(self._directory)
            if self._is_registered(client):
                self._client = client
                return
        raise AgentError(
            f"agents in {self._directory} end before they answer; {self._directory / 'agent.log'} says why"
        )

    def _is_registered(self, client: Client) -> bool:
        """Register with an agent; False if it has gone meanwhile."""
        try:
            client.ask(**self._request)
        except ConnectionError:
            client.close()
            return False
        except BaseException:
            client.close()
            raise
        return True

    def _environment(self) -> dict[str, str]:
        base = dict(os.environ)
        if base.get(EMULATED_VARIABLE):
            from pillion_node import emulator  # noqa: PLC0415 - only where it is emulated

            base = emulator.environment(Path(base[EMULATED_VARIABLE]), base)
        library = os.environ.get(GATE_LIBRARY_VARIABLE)
        found: dict[str, str] = gate.environment(
            self._directory / "gate.sock", base, Path(library) if library else None
        )
        found["CUDA_VISIBLE_DEVICES"] = str(self._gpu)
        return found

    def _keep_agent(self) -> None:
        """Start another agent whenever this one dies. A thread of its own; the command does not notice."""
        while self._client is not None:
            self._client.wait_for_end()
            self._client.close()
            try:
                self._register()
            except (AgentError, OSError) as error:
                sys.stderr.write(
                    f"pillion: the agent has gone, and no other can be started ({error}); going on without\n"
                )
                return

    def run(self) -> int:
        """Run the command; its exit code, 128 + n if signal n ended it.

        Raises:
            AgentError: The policy cannot be kept here.
            GateError: There is no gate to put in front of the command.
        """
        environment = self._environment()
        # Processes that lose their parents become this one's children, so that they are still known as the command's.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_FORWARDED, signal.SIGCHLD})
        try:
            self._register()
            try:
                child = os.posix_spawnp(
                    self._command[0], self._command, environment, setsigmask=before, setsigdef=_CHANGED_BY_PYTHON
                )
            except FileNotFoundError:
                sys.stderr.write(f"pillion: {self._command[0]}: not found\n")
                return NOT_FOUND
            except OSError as error:
                sys.stderr.write(f"pillion: {self._command[0]}: {error.strerror}\n")
                return CANNOT_RUN
            threading.Thread(target=self._keep_agent, daemon=True).start()
            return _wait_for(child)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait_for(child: int) -> int:
    """Hand signals on to a process until it has ended, reaping whatever else ends meanwhile."""
    while True:
        received = signal.sigwaitinfo({*_FORWARDED, signal.SIGCHLD})
        if received.si_signo != signal.SIGCHLD:
            if received.si_code != _SI_KERNEL:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, received.si_signo)
            continue
        while True:
            try:
                ended, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return OWN_FAILURE
            if ended == child:
                return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            if ended == 0:
                break


def run(annotations: Mapping[str, str], gpu: int, command: Sequence[str]) -> int:
    """Run a command under a policy on one GPU of this machine; what to exit with."""
    try:
        return Supervisor(annotations, gpu, command).run()
    except (AgentError, gate.GateError, OSError) as error:
        sys.stderr.write(f"pillion: {error}\n")
        return OWN_FAILURE
