"""The process of a warm session (`warm_sessions`): the embedded Spark with its Connect server,
until it is asked to end or no client has used it for a while.

    python -m dbt.adapters.mvsink.connection.warm_server < what to start, as JSON

Spark Connect's server, a plugin, is in the embedded session, so that everything of that holds here:
its settings, the lock of the metastore, the archive of classes. It answers on 127.0.0.1 only, and
only those that have the token; a server that answers without one is not offered to clients.

A session ends with the process that opened it, also with one that was killed: its statements are
cancelled, and its temporary views, cached plans and artifacts dropped. Other programs' sessions (an
IDE's) are left to Spark, which drops them an hour after their last statement.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.__version__ import version
from dbt.adapters.mvsink.connection import jvm
from dbt.adapters.mvsink.connection.embedded import EmbeddedSpark
from dbt.adapters.mvsink.connection.errors import WarmSessionFailed
from dbt.adapters.mvsink.connection.settings import session_settings
from dbt.adapters.mvsink.connection.warm_sessions import (
    POLL,
    WarmPlace,
    WarmServer,
    clients,
    name_of,
    private,
)
from dbt.adapters.mvsink.credentials import MvsinkCredentials

PLUGINS = "spark.plugins"
CONNECT_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"
SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService"
SWEEP = 1.0  # seconds between two looks at the clients
ANSWERS_IN = 20.0  # seconds
FIRST_STATEMENTS = (  # they change nothing in the catalog
    "show databases",
    "show table extended in default like '*'",
    "insert overwrite directory '{directory}/rows' using parquet select id, cast(id as string) s from range(9)",
    "select s, count(*), max(id) from parquet.`{directory}/rows` group by s",
)


def main() -> None:
    """Start the server that standard input describes, and stay until it ends."""
    wanted = json.load(sys.stdin)
    credentials = MvsinkCredentials(
        **wanted["profile"],
        metastore_timeout=wanted["metastore_timeout"],
        class_archive=wanted["class_archive"],
        progress=False,
    )
    credentials.belong_to(wanted["project"])
    os.chdir(wanted["project"])  # what relative paths in queries are relative to
    sys.argv = ["mvsink", "session"]  # what those that wait for the metastore are shown
    settings = session_settings(credentials)
    if name_of(settings) != wanted["name"]:
        raise SystemExit("the session's settings are others here than in the process that starts it")
    place = WarmPlace(Path(credentials.home), wanted["name"])
    with private(place.path("lock"), "a") as lock:
        take(lock)
        token = secrets.token_urlsafe(32)
        names = sorted(credentials.server_side_parameters)
        try:
            serve(place, started(credentials, settings, token), token, wanted["idle"], names)
        except DbtRuntimeError as error:
            raise SystemExit(str(error)) from error


def take(lock: IO[str]) -> None:
    """Take the lock of a server's place. `SystemExit` if another server has it; those who look
    whether one has hold it for a moment.
    """
    deadline = time.monotonic() + ANSWERS_IN
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise SystemExit("another process has this session") from None
            time.sleep(POLL)
        else:
            return


def started(credentials: MvsinkCredentials, settings: Mapping[str, str], token: str) -> Any:
    """The session, with its Connect server."""
    plugins = [part for part in settings.get(PLUGINS, "").split(",") if part and part != CONNECT_PLUGIN]
    credentials.server_side_parameters.update(
        {
            PLUGINS: ",".join([*plugins, CONNECT_PLUGIN]),
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
            "spark.connect.authenticate.token": token,
        }
    )
    return EmbeddedSpark().session(credentials)


def serve(place: WarmPlace, session: Any, token: str, idle: float, names: list[str]) -> None:
    """Offer the session's server to clients until it ends."""
    service = getattr(getattr(session._jvm, f"{SERVICE}$"), "MODULE$")
    port = int(service.localPort())
    require_token(port)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    place.written(
        WarmServer(
            name=place.name,
            home=str(place.home),
            host=socket.gethostname(),
            process=os.getpid(),
            port=port,
            token=token,
            pyspark=session.version,
            package=version,
            started=wall_clock.now_ms(),
            settings=tuple(names),
        )
    )
    threading.Thread(target=warm_up_if_possible, args=(port, token), daemon=True).start()
    sessions = Sessions(service)
    try:
        used = time.monotonic()
        while not ended.wait(SWEEP) and jvm.exit_code() is None:
            if sessions.swept(place):
                used = time.monotonic()
            elif time.monotonic() - used > idle:
                break
    finally:
        place.path("json").unlink(missing_ok=True)


def warm_up(port: int, token: str) -> None:
    """Send the server what the first client would wait for: the metastore is opened, and Java loads
    its classes, while dbt reads the project.
    """
    from pyspark.sql.connect.session import SparkSession

    with tempfile.TemporaryDirectory(prefix="mvsink-warm-up-") as directory:
        session: Any = SparkSession(connection=f"sc://localhost:{port}/;token={token}")
        session.client.set_retry_policies([])
        try:
            for statement in FIRST_STATEMENTS:
                session.sql(statement.format(directory=directory)).toArrow()
        finally:
            session.client.release_session()
            session.client.close()


def warm_up_if_possible(port: int, token: str) -> None:
    """The same; an error is the first client's to see."""
    with suppress(Exception):
        warm_up(port, token)


class Sessions:
    """The sessions of the server, of clients and of other programs."""

    def __init__(self, service: Any):
        self._service = service
        self._newest = 0  # ms: the newest statement of any session that was seen

    def swept(self, place: WarmPlace) -> bool:
        """Close what ended processes have left, and whether the server is in use: a process that
        uses it is there, or some session has a statement, or had one since the last time.
        """
        manager, known = self._service.sessionManager(), list(clients(place))
        gone = {session for client in known if client.gone for session in client.sessions}
        newest = self._newest
        for info in _listed(manager.listActiveSessions()):
            if info.key().sessionId() in gone:
                manager.closeSession(info.key(), False)
            else:
                newest = max(newest, int(info.lastAccessTimeMs()))
        for client in known:
            if client.gone:
                client.path.unlink(missing_ok=True)
        present = any(not client.gone for client in known)
        in_use = present or newest > self._newest or bool(self._service.listActiveExecutions().isRight())
        self._newest = newest
        return in_use


def _listed(sequence: Any) -> list[Any]:
    """The items of a Scala sequence."""
    return [sequence.apply(index) for index in range(sequence.size())]


def require_token(port: int) -> None:
    """`DbtRuntimeError` if the server answers someone without the token."""
    import grpc
    from pyspark.sql.connect.proto import ConfigRequest, UserContext, base_pb2_grpc

    stub: Any = base_pb2_grpc.SparkConnectServiceStub
    request = ConfigRequest(session_id="00000000-0000-4000-8000-000000000000")
    request.user_context.CopyFrom(UserContext(user_id="anyone"))
    request.operation.get_option.keys.append("spark.app.name")
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            stub(channel).Config(request, timeout=ANSWERS_IN)
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
                return
            raise WarmSessionFailed(f"the server does not answer: {error.details()}") from error
    raise WarmSessionFailed(
        "this PySpark's Connect server has no token authentication, so anyone on this machine could use the session: "
        "install PySpark 4.0 or newer"
    )


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
