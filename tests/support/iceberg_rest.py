"""An Iceberg REST catalog for tests, on 127.0.0.1: the part of the open specification that a client
needs to list, read, create by a commit, change and drop tables. pyiceberg's catalog on SQLite keeps
them.

It refuses requests without its token and its header, and paths without its prefix, so a client that
reads a table had all of them. A client gets the token for the credential and the scope.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pyiceberg import exceptions as ice
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, StagedTable
from pyiceberg.table.metadata import TableMetadataV1
from pyiceberg.table.update import AssertCreate

TOKEN, CREDENTIAL, SCOPE = "token-of-rest", "me:credential-of-rest", "of-the-test"
PREFIX, WAREHOUSE = "of/tests", "lake-house"
HEADER, TEAM = "X-Team", "team-of-rest"
SECRETS = (TOKEN, CREDENTIAL.partition(":")[2], TEAM)
SEPARATOR = "\x1f"  # between the levels of a namespace in a path
STATUS: dict[type[Exception], int] = {
    ice.NoSuchTableError: 404,
    ice.NoSuchNamespaceError: 404,
    ice.NamespaceAlreadyExistsError: 409,
    ice.TableAlreadyExistsError: 409,
    ice.NamespaceNotEmptyError: 409,
    ice.CommitFailedException: 409,
}


def properties(uri: str, **others: str) -> dict[str, str]:
    """pyiceberg's properties of the server at ``uri``, without ``token`` and ``credential``."""
    return {
        "type": "rest",
        "uri": uri,
        "warehouse": WAREHOUSE,
        "prefix": PREFIX,
        f"header.{HEADER}": TEAM,
        **others,
    }


def by_token(uri: str) -> dict[str, str]:
    """The properties with a token."""
    return properties(uri, token=TOKEN)


def by_credential(uri: str) -> dict[str, str]:
    """The properties with a credential, for which the server has a token."""
    server = {"oauth2-server-uri": f"{uri}/login", "scope": SCOPE}
    return properties(uri, credential=CREDENTIAL, **server)


class Refused(Exception):
    """An answer other than 200: the status, its type in the specification, a message."""

    def __init__(self, status: int, kind: str, message: str = ""):
        super().__init__(message)
        self.status, self.kind = status, kind


class RestCatalog:
    """What the server answers."""

    def __init__(self, place: Path):
        self._kept = SqlCatalog("kept", uri=f"sqlite:///{place}/rest.db", warehouse=f"file://{place}")
        self._lock = threading.Lock()
        self.clients: set[str] = set()  # the `User-Agent` of each that was answered, up to its `/`

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Any:
        """What JSON says; None if the answer is empty. Raises `Refused` and pyiceberg errors."""
        url = urlsplit(target)
        asked = parse_qs(url.query)
        if (method, url.path) == ("POST", "/login"):
            return _token(parse_qs(body.decode()))
        if headers.get("Authorization") != f"Bearer {TOKEN}" or headers.get(HEADER) != TEAM:
            raise Refused(401, "NotAuthorizedException", "no token, or not of this team")
        self.clients.add(headers.get("User-Agent", "").partition("/")[0])
        if (method, url.path) == ("GET", "/v1/config"):
            if asked.get("warehouse") != [WAREHOUSE]:
                raise Refused(400, "BadRequestException", "another warehouse")
            return {
                "defaults": {},
                "overrides": {},
                "endpoints": [f"{verb} {path}" for verb, path in ENDPOINTS],
            }
        start = f"/v1/{PREFIX}/"
        if not url.path.startswith(start):
            raise Refused(404, "NotFoundException", url.path)
        route, names = _route(method, url.path.removeprefix(start).split("/"))
        with self._lock:
            return route(self, *names, body)

    def namespaces(self, body: bytes) -> Any:
        return {"namespaces": self._kept.list_namespaces()}

    def create_namespace(self, body: bytes) -> Any:
        asked = json.loads(body)
        self._kept.create_namespace(tuple(asked["namespace"]), asked.get("properties") or {})
        return {"namespace": asked["namespace"], "properties": {}}

    def namespace(self, namespace: str, body: bytes) -> Any:
        return {
            "namespace": _levels(namespace),
            "properties": dict(self._kept.load_namespace_properties(_levels(namespace))),
        }

    def drop_namespace(self, namespace: str, body: bytes) -> Any:
        self._kept.drop_namespace(_levels(namespace))

    def tables(self, namespace: str, body: bytes) -> Any:
        listed = self._kept.list_tables(_levels(namespace))
        return {"identifiers": [{"namespace": each[:-1], "name": each[-1]} for each in listed]}

    def table(self, namespace: str, name: str, body: bytes) -> Any:
        table = self._kept.load_table((*_levels(namespace), unquote(name)))
        return _described(table.metadata, table.metadata_location)

    def commit(self, namespace: str, name: str, body: bytes) -> Any:
        asked = CommitTableRequest.model_validate_json(body)
        identifier = (*_levels(namespace), unquote(name))
        if any(isinstance(each, AssertCreate) for each in asked.requirements):
            nothing = TableMetadataV1.model_construct(location="", last_column_id=-1, schema=Schema())
            table: Any = StagedTable(identifier, nothing, "", self._kept._load_file_io(), self._kept)
        else:
            table = self._kept.load_table(identifier)
        done = self._kept.commit_table(table, asked.requirements, asked.updates)
        return _described(done.metadata, done.metadata_location)

    def drop(self, namespace: str, name: str, body: bytes) -> Any:
        self._kept.drop_table((*_levels(namespace), unquote(name)))


NAMESPACES = "/v1/{prefix}/namespaces"
NAMESPACE = f"{NAMESPACES}/{{namespace}}"
TABLE = f"{NAMESPACE}/tables/{{table}}"
ENDPOINTS: dict[tuple[str, str], Callable[..., Any]] = {
    ("GET", NAMESPACES): RestCatalog.namespaces,
    ("POST", NAMESPACES): RestCatalog.create_namespace,
    ("GET", NAMESPACE): RestCatalog.namespace,
    ("DELETE", NAMESPACE): RestCatalog.drop_namespace,
    ("GET", f"{NAMESPACE}/tables"): RestCatalog.tables,
    ("GET", TABLE): RestCatalog.table,
    ("POST", TABLE): RestCatalog.commit,
    ("DELETE", TABLE): RestCatalog.drop,
}


def _route(method: str, parts: list[str]) -> tuple[Callable[..., Any], list[str]]:
    """The endpoint, and the names in its path."""
    for (verb, path), route in ENDPOINTS.items():
        pattern = path.removeprefix("/v1/{prefix}/").split("/")
        pairs = list(zip(pattern, parts))
        fits = verb == method and len(pattern) == len(parts)
        if fits and all(known == part or known.startswith("{") for known, part in pairs):
            return route, [part for known, part in pairs if known.startswith("{")]
    raise Refused(404, "NotFoundException", f"{method} {'/'.join(parts)}")


def _levels(namespace: str) -> tuple[str, ...]:
    return tuple(unquote(namespace).split(SEPARATOR))


def _described(metadata: Any, location: str) -> dict[str, Any]:
    described = json.loads(metadata.model_dump_json(exclude_none=True))
    return {"metadata-location": location, "metadata": described, "config": {}}


def _token(form: Mapping[str, list[str]]) -> Any:
    user, _, secret = CREDENTIAL.partition(":")
    wanted = {"client_id": user, "client_secret": secret, "scope": SCOPE}
    if any(form.get(name) != [value] for name, value in wanted.items()):
        raise Refused(401, "NotAuthorizedException", "another client or scope")
    kind = "urn:ietf:params:oauth:token-type:access_token"
    return {"access_token": TOKEN, "token_type": "bearer", "issued_token_type": kind, "expires_in": 3600}


class _Handler(BaseHTTPRequestHandler):
    catalog: RestCatalog

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            answer = self.catalog.answer(self.command, self.path, self.headers, body)
            status = 204 if answer is None else 200
        except Exception as error:
            status = error.status if isinstance(error, Refused) else STATUS.get(type(error), 500)
            kind = error.kind if isinstance(error, Refused) else type(error).__name__
            answer = {"error": {"message": str(error), "type": kind, "code": status}}
        text = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_DELETE = _answer

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def rest_catalog(place: Path) -> Iterator[tuple[str, RestCatalog]]:
    """A server until the block ends: its URI, and what it answers."""
    catalog = RestCatalog(place)
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"catalog": catalog})) as server:
        threading.Thread(target=server.serve_forever, name="iceberg-rest", daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", catalog
        finally:
            server.shutdown()
