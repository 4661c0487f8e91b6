"""dbt's connection to a Spark Connect server: a session of its own, closed with the connection.

No statement is ever sent twice. PySpark's client would repeat one whose answer is lost, and after a
restart of the server it would run it in a new session without our settings; both are turned off.
Results come as a whole, so `fetchmany` asks for no more rows than it returns.

dbt opens a connection for each node. After a server's restart the next node has a new session.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.connection.errors import MisusedConnection, NoServer, ServerRefusesSetting
from dbt.adapters.mvsink.connection.frames import FrameConnection, error_text
from dbt.adapters.mvsink.connection.servers import require_spark_4
from dbt.adapters.mvsink.credentials import MvsinkCredentials
from dbt.adapters.mvsink.masking import masked

# what PySpark's client raises after a restart, instead of SESSION_CHANGED, once it has noticed that
NOT_KNOWN = "NO_ACTIVE_SESSION"
LOST = (
    *("UNAVAILABLE", "SESSION_CHANGED", "SESSION_NOT_FOUND", "SESSION_CLOSED", "OPERATION_NOT_FOUND"),
    NOT_KNOWN,
)


def open_connect(credentials: MvsinkCredentials) -> ConnectConnection:
    """A connection with a new session. `FailedToConnectError` with what to check."""
    remote, server = str(credentials.remote), f"the Spark Connect server {masked(str(credentials.remote))}"
    url = address(remote, credentials.token, credentials.use_ssl, credentials.headers or {})
    try:
        session = new_session(url, server, credentials.server_side_parameters)
        return ConnectConnection(session, server, credentials.progress)
    except DbtRuntimeError:
        raise
    except Exception as error:
        reason = first_line(error)
        raise NoServer(f"no session on {server}: {reason}\n  {_advice(reason)}") from error


ADVICE = {  # by what the reason contains
    "CERTIFICATE_VERIFY_FAILED": "Set GRPC_DEFAULT_SSL_ROOTS_FILE_PATH to a file with the certificates that you trust, as PEM",
    "WRONG_VERSION_NUMBER": "The server speaks no TLS: leave out `use_ssl` and `token`, which turn TLS on (a token without "
    "TLS works on `localhost` only)",
    "uthentication": "Check `token` and `headers` of the profile",
}
OTHER_ADVICE = (
    "Check `remote` (a server of Spark 4 runs there), `token`, `use_ssl` and `headers` of the profile"
)


def _advice(reason: str) -> str:
    return next((advice for part, advice in ADVICE.items() if part in reason), OTHER_ADVICE)


class ConnectConnection(FrameConnection):
    """See the module. ``server`` is what messages call the server."""

    def __init__(self, session: Any, server: str, progress: bool):
        super().__init__(session, progress)
        self._server = server
        self._changes = 0
        self._exhausted: bool | None = None
        self._stages: dict[int, Any] = {}
        self.session.registerProgressHandler(self._note_progress)

    @property
    def identity(self) -> object:
        return ("connect", self._server)

    @property
    def session_changes(self) -> tuple[object, int]:
        """Only this connection uses its session."""
        return (self.tag, self._changes)

    def _session_changed(self) -> None:
        self._changes += 1

    def caches_rows(self, table: str) -> bool:
        """Whether the server has rows of the ``table`` (quoted) in memory, for all sessions."""
        try:
            return bool(self.session.catalog.isCached(table))
        except Exception:  # there is no such table: reading it says so
            return False

    def fetchall(self) -> list[Any]:
        """All rows. `DbtRuntimeError` after a `fetchmany` that left some."""
        if self._frame is None or self._is_exhausted():
            return []
        with self._statement():
            self._exhausted = True
            rows: list[Any] = self._frame.collect()
            return rows

    def fetchmany(self, size: int) -> list[Any]:
        """The first ``size`` rows. `DbtRuntimeError` if asked again when there are more: the server
        does not keep a result, and another evaluation may give other rows.
        """
        if self._frame is None or self._is_exhausted():
            return []
        with self._statement():
            self._exhausted = False
            rows: list[Any] = self._frame.limit(size).collect()
            self._exhausted = len(rows) < size
            return rows

    def _is_exhausted(self) -> bool:
        """Whether all rows have been fetched, rather than none."""
        if self._exhausted is False:
            raise MisusedConnection("over Spark Connect the rows of a statement can be fetched only once")
        return self._exhausted is True

    def close(self) -> None:
        super().close()
        self.session.stop()

    def _forget(self) -> None:
        super()._forget()
        self._exhausted = None

    def _enter(self) -> None:
        self._stages = {}
        self.session.addTag(self.tag)

    def _leave(self) -> None:
        self.session.removeTag(self.tag)

    def _cancel_jobs(self) -> None:
        self.session.interruptTag(self.tag)

    def _note_progress(self, stages: Any, inflight_tasks: int, operation_id: Any, done: bool) -> None:
        """The server's messages about the running statement."""
        self._stages = {} if done else {stage.stage_id: stage for stage in stages or ()}

    def _details(self, since: float) -> str:
        stages = list(self._stages.values())
        tasks = sum(stage.num_tasks for stage in stages)
        if not tasks:
            return ""
        finished = sum(
            stage.num_tasks > 0 and stage.num_completed_tasks == stage.num_tasks for stage in stages
        )
        done = sum(stage.num_completed_tasks for stage in stages)
        return f"stage {min(finished + 1, len(stages))}, {done} of {tasks} tasks"

    def _ended(self, error: Exception) -> str | None:
        text = str(error)
        if not any(word in text for word in LOST):
            return None
        reason = "it does not know the session" if NOT_KNOWN in text else first_line(error)
        return f"{self._server} cannot be reached any more, or has dropped the session ({reason}). The statement may or may not have run and is not repeated; run again"


def address(remote: str, token: str | None, use_ssl: bool, headers: Mapping[str, str]) -> str:
    """The whole URL of a server with what the profile adds.

    >>> address("sc://host:15002", None, False, {})
    'sc://host:15002'
    >>> address("sc://host/;user_id=ann", "a=b", True, {"x-shop": "north"})
    'sc://host/;user_id=ann;use_ssl=true;token=a%3Db;x-shop=north'
    """
    added = {**({"use_ssl": "true"} if use_ssl else {}), **({"token": token} if token else {}), **headers}
    if not added:
        return remote
    place, _, parameters = remote.partition("/;")
    written = [part for part in parameters.split(";") if part]
    return f"{place.rstrip('/')}/;" + ";".join(
        [*written, *(f"{key}={quote(value, safe='')}" for key, value in added.items())]
    )


def first_line(error: BaseException) -> str:
    """The server's own message, without what gRPC puts around it."""
    details = getattr(getattr(error, "__cause__", None), "details", None)
    text = details() if callable(details) else None
    text = str(text) if text else error_text(error) if isinstance(error, Exception) else str(error)
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("details = "):
            return masked(line.removeprefix("details = ").strip('"'))
    return masked(next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__))


def new_session(url: str, server: str, settings: Mapping[str, str]) -> Any:
    """A new session with ``settings``, whose statements are never repeated."""
    from pyspark.sql.connect.client import SparkConnectClient
    from pyspark.sql.connect.session import SparkSession

    # the client prints each analysis error as JSON, besides raising it
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    session = SparkSession.builder.remote(url).create()
    client: SparkConnectClient = session.client
    client.disable_reattachable_execute()
    client.set_retry_policies([])
    try:
        require_spark_4(server, session.version)  # the first message to the server
        _set(session, settings, server)
    except BaseException:
        client.close()
        raise
    return session


def _set(session: Any, settings: Mapping[str, str], server: str) -> None:
    """`FailedToConnectError` if the server refuses a setting."""
    for name, value in settings.items():
        try:
            session.conf.set(name, value)
        except Exception as error:
            if any(word in str(error) for word in LOST):
                raise
            raise ServerRefusesSetting(
                f"{server} refuses a setting of `server_side_parameters`, {name}: {first_line(error)}\n"
                "  Correct it; settings of the server itself are given to the server when it starts"
            ) from error
