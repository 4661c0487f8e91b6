"""Leases keep history for readers: small files ``leases/<id>`` with the earliest time that a reader
needs.

A lease lasts 15 minutes from when the storage wrote it, by the storage's clock, whatever the file
says, so no reader's clock makes it longer or shorter. A reader renews it while it works, so a
reader that died keeps history no longer than that.

A reader takes its lease and then reads `since`. A writer that moves `since` reads the version that
it follows and then looks at the leases. So only one commit can miss a new lease: the next one, if
it was already under way. The reader loses nothing by it, because compaction also looks at the
leases after it has read the version with that `since`. A lease is *granted* if it is at or after
the `since` that was read after the lease was taken. A granted lease keeps its history until it
ends, whatever `since` says later.
"""

from __future__ import annotations

import json
import logging
import time
import uuid

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.shard.errors import InvalidUsage, NotPermitted
from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.storage import Storage, is_unfinished
from dbt.adapters.mvsink.shard.stored import Unreadable, an_integer, member, parsed

log = logging.getLogger("mvsink.shard")
LEASES = "leases"
LEASE_MS = 15 * 60_000
RENEW_AFTER = LEASE_MS // 3
SURE_MS = LEASE_MS * 4 // 5  # after which a reader takes its lease for expired


class Lease:
    """One reader's lease. It names the earliest time that the reader needs, not all history."""

    def __init__(self, storage: Storage):
        self.storage = storage
        self.name = str(uuid.uuid4())
        self._from: Antichain | None = None  # what the file says; None: there is none
        self._granted = False
        self._denied = False
        self._taken = (0.0, 0)  # by both clocks of this machine, in ms

    @property
    def path(self) -> str:
        """Its file."""
        return f"{LEASES}/{self.name}"

    def covers(self, frontier: Antichain) -> bool:
        """Whether history from ``frontier`` on is kept, and the lease need not be renewed yet."""
        return self._denied or (
            self._from is not None and self._from.less_equal(frontier) and self._age() <= RENEW_AFTER
        )

    def take(self, frontier: Antichain) -> None:
        """Keep history from ``frontier`` on. Without the permission to write there is no lease, and
        a warning says so.
        """
        lapsed = self._from is not None and self._age() > SURE_MS
        if lapsed:  # its file may be in the middle of being deleted
            self.name = str(uuid.uuid4())
        kept = self._granted and not lapsed and self._from is not None and self._from.less_equal(frontier)
        now = (time.monotonic() * 1000, wall_clock.now_ms())
        try:
            # `expires` is for earlier releases
            lease = {"since": frontier.stored(), "expires": self.storage.clock() + LEASE_MS}
            self.storage.write_text(self.path, json.dumps(lease))
        except NotPermitted as error:
            self._denied = True
            log.warning(
                "reading shard %s without a lease, because this process may not write there: history that is being read can be "
                "released meanwhile, and then the read fails (%s)",
                self.storage.uri,
                error,
            )
            return
        self._from, self._granted, self._taken = frontier, kept, now

    def since(self, newest: Antichain) -> Antichain:
        """The earliest time at which this reader's reads are exact. ``newest`` is the `since` of a
        version that was read after the lease was taken.
        """
        if self._from is None:
            return newest
        self._granted = self._granted or newest.less_equal(self._from)
        return newest.meet(self._from) if self._granted and self._age() <= SURE_MS else newest

    def release(self) -> None:
        """Give up the lease; harmless if there is none."""
        if self._from is not None:
            self.storage.delete([self.path])
        self._from, self._granted = None, False

    def _age(self) -> float:
        """The lease's age in ms by whichever of two clocks has moved further: one may stand still
        while the machine sleeps, the other may be set back.
        """
        now = (time.monotonic() * 1000, wall_clock.now_ms())
        return max(abs(a - b) for a, b in zip(now, self._taken))


def leased_since(storage: Storage) -> Antichain:
    """The earliest time that a lease keeps; the empty frontier if there is none. Removes leases
    that have expired.

    A lease that cannot be read keeps everything until it ends. A lease dated ahead, because the
    storage's clock was set back, is written again, so that it ends too.
    """
    earliest = Antichain.empty()
    leases = storage.list_files(LEASES)
    now = storage.clock() if leases else 0
    for file in leases:
        if file.modified + LEASE_MS < now:
            storage.delete([file.path])
            continue
        text = None if is_unfinished(file.path) else storage.read_text(file.path)
        if text is None:  # not taken yet, or released meanwhile
            continue
        earliest = earliest.meet(_from(text))
        if file.modified > now + LEASE_MS:
            storage.write_text(file.path, text)
    return earliest


def _from(text: str) -> Antichain:
    try:
        return Antichain.of(an_integer(member(parsed(text), "since")))
    except (Unreadable, InvalidUsage):
        return Antichain.of(0)
