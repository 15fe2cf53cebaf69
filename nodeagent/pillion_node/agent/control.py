"""The control socket: one JSON object a line in, one a line out. For this user and root only."""

from __future__ import annotations

import json
import os
import selectors
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pillion_node.agent import identity
from pillion_node.agent.config import AgentError, Config
from pillion_node.agent.identity import Peer
from pillion_node.agent.log import Log

_LONGEST_REQUEST = 16 * 1024
_MOST_UNREAD = 4 * 1024 * 1024
_MOST_CALLERS = 256

Answer = Callable[[Mapping[str, Any], Peer], dict[str, Any]]
"""Answers one request; raises AgentError with words for the caller."""


class _Caller:
    def __init__(self, connection: socket.socket, peer: Peer) -> None:
        self.connection, self.peer = connection, peer
        self.incoming = b""
        self.outgoing = b""


def _request(line: bytes) -> dict[str, Any]:
    request = json.loads(line)
    if not isinstance(request, dict):
        raise AgentError("a request is a JSON object")
    return request


class ControlServer:
    """Answers requests, one after the other."""

    def __init__(self, config: Config, selector: selectors.BaseSelector, answer: Answer, log: Log) -> None:
        self._selector, self._answer, self._log = selector, answer, log
        self._callers: dict[socket.socket, _Caller] = {}
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self.socket.bind(str(config.control_socket))
        config.control_socket.chmod(0o600)
        self.socket.listen(64)
        selector.register(self.socket, selectors.EVENT_READ, self._accept)

    def _accept(self, now_ns: int) -> None:
        del now_ns
        try:
            connection, _ = self.socket.accept()
        except OSError:
            return
        peer = identity.peer_of(connection)
        if peer.uid not in (0, os.getuid()) or len(self._callers) >= _MOST_CALLERS:
            connection.close()
            return
        connection.setblocking(False)
        caller = self._callers[connection] = _Caller(connection, peer)
        self._selector.register(connection, selectors.EVENT_READ, partial(self._serve, caller))

    def _serve(self, caller: _Caller, now_ns: int) -> None:
        del now_ns
        if caller.connection not in self._callers:
            return  # an earlier event of this round ended it
        try:
            self._read(caller)
            self._write(caller)
        except BlockingIOError:
            pass
        except OSError:
            self._forget(caller)
            return
        if caller.connection in self._callers:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if caller.outgoing else 0)
            self._selector.modify(caller.connection, events, partial(self._serve, caller))

    def _read(self, caller: _Caller) -> None:
        try:
            data = caller.connection.recv(_LONGEST_REQUEST)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionResetError
        *lines, caller.incoming = (caller.incoming + data).split(b"\n")
        for line in lines:
            caller.outgoing += self._reply(line, caller.peer)
        if len(caller.incoming) > _LONGEST_REQUEST or len(caller.outgoing) > _MOST_UNREAD:
            raise ConnectionResetError

    def _write(self, caller: _Caller) -> None:
        if caller.outgoing:
            sent = caller.connection.send(caller.outgoing, socket.MSG_NOSIGNAL)
            caller.outgoing = caller.outgoing[sent:]

    def _reply(self, line: bytes, peer: Peer) -> bytes:
        try:
            answer = {"ok": True, **self._answer(_request(line), peer)}
        except (ValueError, RecursionError) as error:
            answer = {"ok": False, "error": f"not JSON: {error}"}
        except AgentError as error:
            answer = {"ok": False, "error": str(error)}
        return json.dumps(answer).encode() + b"\n"

    def _forget(self, caller: _Caller) -> None:
        if self._callers.pop(caller.connection, None) is not None:
            self._selector.unregister(caller.connection)
            caller.connection.close()

    def close(self) -> None:
        """Hang up on everybody."""
        for caller in list(self._callers.values()):
            self._forget(caller)
        self._selector.unregister(self.socket)
        self.socket.close()
