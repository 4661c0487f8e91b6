"""dbt's connection to a warm session (`warm_sessions`): a session of its own on that server.

The server is on this machine, with the settings of the profile. So what holds of the embedded
session's files, cores and metastore holds here, too.
"""

from __future__ import annotations

import threading
from pathlib import Path

from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.connection.connect import ConnectConnection, first_line, new_session
from dbt.adapters.mvsink.connection.errors import WarmSessionFailed
from dbt.adapters.mvsink.connection.warm_sessions import Presence, WarmPlace, WarmServer
from dbt.adapters.mvsink.credentials import MvsinkCredentials, check_connect

_lock = threading.Lock()
_presences: dict[tuple[str, int], Presence] = {}  # of this process, by the server's name and process


def open_warm(credentials: MvsinkCredentials, server: WarmServer) -> WarmConnection:
    """A connection with a new session. `FailedToConnectError` with what to do."""
    check_connect()
    try:
        return WarmConnection(credentials, server)
    except DbtRuntimeError:
        raise
    except Exception as error:
        raise WarmSessionFailed(
            f"{server.words} gives no session: {first_line(error)}\n  `mvsink session stop` ends it, and the next command "
            "starts its own Spark"
        ) from error


class WarmConnection(ConnectConnection):
    """See the module."""

    def __init__(self, credentials: MvsinkCredentials, server: WarmServer):
        session = new_session(server.remote, server.words, {})
        _presence(server).note(session.session_id)
        super().__init__(session, server.words, credentials.progress)
        self._identity = ("session", server.name, server.process, server.started)

    @property
    def identity(self) -> object:
        return self._identity

    @property
    def session_changes(self) -> tuple[object, int]:
        """All new sessions are alike: what one says holds in all, until a statement changes it."""
        return (self.tag if self._changes else self._identity, self._changes)


def _presence(server: WarmServer) -> Presence:
    """The server ends what this process leaves when it ends."""
    with _lock:
        key = (server.name, server.process)
        if key not in _presences:
            _presences[key] = Presence(WarmPlace(Path(server.home), server.name))
        return _presences[key]
