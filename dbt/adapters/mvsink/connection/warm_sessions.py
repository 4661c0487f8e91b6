"""Warm sessions: Spark Connect servers of a project on this machine, which outlive the commands
that use them.

A server's files are in `.mvsink/session` of the project. Its name is a digest of what must be equal
for its use: the versions of PySpark and of this package, all settings of the session, and what of
the environment Spark reads. So one of other versions or settings is neither used nor stopped.

```
<name>.lock      held (`flock`) by the server from its first to its last moment
<name>.json      once it answers: port, token, process; only this user can read it
<name>.starting  held by the process that starts one: the others wait for it
<name>.log       what the server's process printed
<name>.clients/  a file for each process that uses it, held by that process, with its sessions
```

Locks are the kernel's, so that they end with their process, however that ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version as version_of
from pathlib import Path
from typing import IO, Any

from dbt.adapters.events.logging import AdapterLogger

from dbt.adapters.mvsink.__version__ import version
from dbt.adapters.mvsink.connection.embedded import LOG_FILE, prepare_home
from dbt.adapters.mvsink.connection.errors import Interrupted, WarmSessionFailed
from dbt.adapters.mvsink.connection.job_progress import starting_spark
from dbt.adapters.mvsink.connection.metastore import interrupted
from dbt.adapters.mvsink.connection.settings import session_settings
from dbt.adapters.mvsink.credentials import MvsinkCredentials, check_connect, check_pyspark
from dbt.adapters.mvsink.masking import keep_secret, masked
from dbt.adapters.mvsink.profile_keys import WARM

logger = AdapterLogger("mvsink")
DIRECTORY = "session"
POLL = 0.05  # seconds
IDLE = 3600.0  # seconds without a client, after which a server ends
ENDS_IN = 60.0  # seconds
STARTS_IN = 600.0  # seconds; it may download jars
METASTORE = "waiting for the embedded metastore"
Say = Callable[[str], None]
# variables of the environment; PySpark itself sets others that begin with SPARK_
_READ_BY_SPARK = re.compile(
    r"TZ|(?:AWS|AZURE|GOOGLE)_\w+|HADOOP_(?:CONF_DIR|USER_NAME)|SPARK_(?:CONF_DIR|SUBMIT_OPTS)|PYSPARK_SUBMIT_ARGS"
)


@dataclass(frozen=True)
class WarmServer:
    """A server that answers at ``port`` of 127.0.0.1. ``settings`` names those that the profile
    sets; ``started`` is in ms.
    """

    name: str
    home: str
    host: str
    process: int
    port: int
    token: str
    pyspark: str
    package: str
    started: int
    settings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"WarmServer({self.name}, process {self.process})"

    @property
    def remote(self) -> str:
        """Its address for PySpark, with the token."""
        return f"sc://localhost:{self.port}/;token={self.token}"

    @property
    def words(self) -> str:
        return f"the warm session (process {self.process})"


@dataclass(frozen=True)
class WarmPlace:
    """Where the server called ``name`` keeps its files, for the project whose directory for the
    session is ``home``.
    """

    home: Path
    name: str

    @classmethod
    def of(cls, credentials: MvsinkCredentials) -> WarmPlace:
        """That of the server that fits the profile."""
        return cls(Path(credentials.home), name_of(session_settings(credentials)))

    def path(self, suffix: str) -> Path:
        return self.home / DIRECTORY / f"{self.name}.{suffix}"

    def running(self, say: Say | None = None) -> WarmServer | None:
        """The server, if it answers. What one that was killed has left is removed; ``say`` reports
        that, by default to dbt's log.
        """
        stored = self._stored()
        if stored is None:
            return None
        if not self.is_alive():
            (say or logger.info)(
                f"{stored.words} has ended without a word (killed, or out of memory): its last messages are in "
                f"{self.home / LOG_FILE} and {self.path('log')}"
            )
            self.path("json").unlink(missing_ok=True)
            return None
        keep_secret([stored.token])
        return stored

    def is_alive(self) -> bool:
        """Whether a server has this place, answering or not."""
        with suppress(OSError), open(self.path("lock"), "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def _stored(self) -> WarmServer | None:
        try:
            stored = json.loads(self.path("json").read_text())
            server = WarmServer(**{**stored, "settings": tuple(stored["settings"])})
        except (OSError, ValueError, TypeError, KeyError):  # none, or another user's
            return None
        return server if server.host == socket.gethostname() else None

    def written(self, server: WarmServer) -> None:
        """Have clients find the ``server``."""
        write_private(self.path("json"), json.dumps(asdict(server)))


def name_of(settings: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> str:
    """The name of the server with these settings, in these versions, in an ``environment`` in which
    Spark finds the same zone, configuration and credentials.
    """
    known = {name: value for name, value in environment.items() if _READ_BY_SPARK.fullmatch(name)}
    versions = [version_of("pyspark"), version, sys.version_info[:2]]
    equal = json.dumps([*versions, sorted(settings.items()), sorted(known.items())])
    return hashlib.sha256(equal.encode()).hexdigest()[:16]


def places(home: Path) -> list[WarmPlace]:
    """Those of all servers of a project, also of such that have ended or do not answer yet."""
    return [WarmPlace(home, path.stem) for path in sorted((home / DIRECTORY).glob("*.lock"))]


def may_be_warm(credentials: MvsinkCredentials) -> bool:
    """Whether `warm_server` has to look."""
    wanted = credentials.session
    return wanted == WARM or (wanted is None and (Path(credentials.home) / DIRECTORY).is_dir())


def warm_server(credentials: MvsinkCredentials) -> WarmServer | None:
    """The server for the profile, if there is one; with ``session: warm`` it is started."""
    server = WarmPlace.of(credentials).running() if may_be_warm(credentials) else None
    if server is None and credentials.session == WARM:
        return start(credentials, IDLE)
    return server


def start(credentials: MvsinkCredentials, idle: float) -> WarmServer:
    """The server for the profile, started if there is none: of several that start one at the same
    time, one does, and the others wait. It ends after ``idle`` seconds without a client.
    `DbtRuntimeError` with its last words if it does not start.
    """
    check_pyspark()
    check_connect()
    place = WarmPlace.of(credentials)
    try:
        prepare_home(place.home)
        (place.home / DIRECTORY).mkdir(mode=0o700, exist_ok=True)
        with starting_spark(credentials.progress), _alone(place.path("starting")):
            return place.running() or _launched(credentials, place, idle)
    except OSError as error:  # another user's, or a disk that is full or can only be read
        raise WarmSessionFailed(f"a warm session keeps files in {place.home / DIRECTORY}: {error}") from error


def _launched(credentials: MvsinkCredentials, place: WarmPlace, idle: float) -> WarmServer:
    wanted = {
        "project": credentials.project,
        "name": place.name,
        "idle": idle,
        "profile": {
            key: getattr(credentials, key)
            for key in ("schema", "server_side_parameters", "formats", "iceberg_catalog")
        },
        "metastore_timeout": credentials.metastore_timeout,
        "class_archive": credentials.class_archive,
    }
    log = place.path("log")
    with private(log, "wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "dbt.adapters.mvsink.connection.warm_server"],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            cwd=log.parent,  # Python looks for modules there first, and a project may have any
            start_new_session=True,  # it outlives the terminal, and Ctrl-C is not for it
        )
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it has ended: its log says why
        process.stdin.write(json.dumps(wanted).encode())
        process.stdin.close()
    deadline, shown = time.monotonic() + STARTS_IN, 0
    while process.poll() is None and time.monotonic() < deadline:
        stored = place.running()
        if stored is not None:
            return stored
        _wait()
        waits = [line for line in log.read_text(errors="replace").splitlines() if METASTORE in line]
        for line in waits[shown:]:  # the server's own messages, which no terminal shows
            logger.info(masked(line[line.index(METASTORE) :]))
        shown = len(waits)
    with suppress(ProcessLookupError):
        process.terminate()
    output = masked(log.read_text(errors="replace").strip())
    last = output.splitlines()[-1] if output else f"exit code {process.poll()}"
    raise WarmSessionFailed(f"the warm session did not start: {last}\n  Its log: {log}")


def stop(place: WarmPlace, server: WarmServer) -> bool:
    """End the server as it would end by itself. False if it does not within `ENDS_IN`; then it is
    killed.
    """
    with suppress(ProcessLookupError):
        os.kill(server.process, signal.SIGTERM)
    deadline = time.monotonic() + ENDS_IN
    while place.is_alive():
        if time.monotonic() > deadline:
            with suppress(ProcessLookupError):
                os.kill(server.process, signal.SIGKILL)
            return False
        time.sleep(POLL)
    return True


class Presence:
    """This process's file among a server's clients: the server closes the sessions that it names
    once the process has ended.
    """

    def __init__(self, place: WarmPlace):
        directory = place.path("clients")
        directory.mkdir(mode=0o700, exist_ok=True)
        name = uuid.uuid4().hex[:8]
        self._file = private(directory / name, "w")
        fcntl.flock(self._file, fcntl.LOCK_EX)  # before it has a client's name: without, it is gone
        (directory / name).rename(directory / f"{os.getpid()}-{name}")

    def note(self, session: str) -> None:
        """The id of a session of this process."""
        self._file.write(f"{session}\n")
        self._file.flush()


@dataclass(frozen=True)
class Client:
    """A client's file: its process and its sessions. ``gone``: the process has ended."""

    path: Path
    process: int
    sessions: tuple[str, ...]
    gone: bool


def clients(place: WarmPlace) -> Iterator[Client]:
    """The processes that use a server, or did."""
    for path in sorted(place.path("clients").glob("*-*")):
        with suppress(FileNotFoundError), open(path) as file:
            gone = True
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                gone = False
            yield Client(path, int(path.name.partition("-")[0]), tuple(file.read().split()), gone)


def write_private(path: Path, text: str) -> None:
    """Write a file, whole, that only this user can read."""
    new = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    with private(new, "w") as file:
        file.write(text)
    new.replace(path)


def private(path: Path, mode: str) -> IO[Any]:
    """The file, opened; if that makes it, only this user can read it."""
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600))


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """A context in which no other process is that has it with this file."""
    with private(path, "a") as file:
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            _wait()
        yield


def _wait() -> None:
    """A moment. `DbtRuntimeError` after Ctrl-C, which only the main thread gets."""
    if interrupted(POLL):
        raise Interrupted("interrupted while the warm session starts")
