"""One process that joined: its pages, its connection, and what its gate says."""

from __future__ import annotations

import contextlib
import mmap
import os
import socket

from pillion_node import pages
from pillion_node.agent.claims import Claims, is_busy
from pillion_node.agent.identity import Process
from pillion_node.pages import ClientFlag, Kind, Layout, Page

_CLAIMED_BYTES = 256  # a client page's fields end before
_MOST_IN_FLIGHT = 1 << 16  # more than any gate lets through; what is above is a lie


class Member:
    """One process of a tenant.

    Attributes:
        process: Who it is.
        pidfd: Readable when it has ended.
        connection: To its gate; None after that has hung up.
        slot: Its place in the tenant's ledger.
        lease: Written by the agent.
        client: Written by its gate.
        claimed: The same, to be read in one piece.
        activity: A high process's marks, or None.
        activity_slot: Under which number lower tiers know it.
        distrusted: Its marks say that it is busy, and the GPU says otherwise: lower tiers no longer see them.
        mapped: Whether it has said that its pages are mapped.
        claims: What its gate said when last looked at.
    """

    def __init__(self, layout: Layout, process: Process, pidfd: int, connection: socket.socket, slot: int) -> None:
        self.process, self.pidfd, self.slot = process, pidfd, slot
        self.connection: socket.socket | None = connection
        self.lease = pages.create_page(layout, "lease")
        try:
            self.client = pages.create_page(layout, "client")
        except OSError:
            self.lease.close()
            raise
        self.claimed = mmap.mmap(self.client.fd, pages.PAGE_BYTES, prot=mmap.PROT_READ)
        self.activity: Page | None = None
        self.activity_slot = -1
        self.distrusted = False
        self.mapped = False
        self.claims = Claims()
        self._seen = b""
        self._seen_marks = -1
        self._layout = layout
        self._is_open = False

    @property
    def present(self) -> bool:
        """Whether its gate is there."""
        return self.connection is not None

    def has_news(self) -> bool:
        """Whether its pages say anything that they did not say before; cheaper than reading what they say."""
        marks = self.activity["marks"] if self.activity is not None else -1
        said = self.claimed[:_CLAIMED_BYTES]
        if said == self._seen and marks == self._seen_marks:
            return False
        self._seen, self._seen_marks = said, marks
        return True

    @property
    def claims_busy(self) -> bool:
        """Whether a high process says that it has work on the GPU."""
        return self.activity is not None and is_busy(self.activity)

    def in_flight(self) -> int:
        """Return how many submissions it says are under way."""
        return min(self.claims.in_flight, _MOST_IN_FLIGHT)

    def untracked(self) -> bool:
        """Whether there may be work of it on the GPU that its gate did not count."""
        return bool(self.claims.flags & ClientFlag.UNTRACKED)

    def open(self) -> None:
        """Let everything pass."""
        if not self._is_open:
            self._is_open = True
            self.lease["open"] = 1
            self.lease.update(openings=self.lease["openings"] + 1 & 0xFFFFFFFF)

    def shut(self) -> None:
        """Let the lease decide again."""
        if self._is_open:
            self._is_open = False
            self.lease["open"] = 0
            self.lease.update()
            self.say(Kind.NEWS)

    def say(self, kind: Kind, *descriptors: int, **values: int) -> bool:
        """Send a message; False if the gate does not take it, which must not hold anybody up."""
        if self.connection is None:
            return False
        try:
            pages.send(self.connection, self._layout.pack(kind, **values), descriptors)
        except OSError:
            return False
        return True

    def hang_up(self) -> None:
        """Close the connection."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def close(self) -> None:
        """Let go of everything that was held for it."""
        self.hang_up()
        self.claimed.close()
        for page in (self.lease, self.client, self.activity):
            if page is not None:
                page.close()
        with contextlib.suppress(OSError):
            os.close(self.pidfd)
