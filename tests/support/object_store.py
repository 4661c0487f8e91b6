"""An object store that counts its requests: the part of S3's protocol that reading a shard needs,
over a directory. What the library sends is seen, whatever it does inside.

It is a process of its own: the library holds Python's lock while it waits for some of its requests.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from urllib.request import urlopen
from xml.sax.saxutils import escape

BUCKET = "bucket"
PAGE = 1000  # keys a listing gives at most, as S3 does


@dataclass(frozen=True)
class ObjectStore:
    """A store at ``address``."""

    address: str

    @property
    def options(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }

    def uri(self, path: str) -> str:
        return f"s3://{BUCKET}/{path}"

    def requests(self) -> list[str]:
        """Those received since the last call: method and key."""
        with urlopen(f"{self.address}/requests") as answer:
            return list(json.load(answer))


@contextmanager
def object_store(root: Path) -> Iterator[ObjectStore]:
    """The files below ``root`` as objects, until the block ends."""
    command = [sys.executable, "-m", __name__, str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield ObjectStore(f"http://127.0.0.1:{process.stdout.readline().strip()}")
        finally:
            process.kill()


class _Requests(BaseHTTPRequestHandler):
    root: Path
    received: list[str]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    def do_HEAD(self) -> None:
        self._object(body=False)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/requests":
            received, self.received[:] = json.dumps(self.received), []
            self._answer(200, received.encode(), {}, body=True)
            return
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if "list-type" in query:
            self._list(query)
        else:
            self._object(body=True)

    def _object(self, *, body: bool) -> None:
        key = unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}/")
        self.received.append(f"{self.command} {key}")
        path = self.root / key
        if not path.is_file():
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>", {}, body)
            return
        contents, headers, status = path.read_bytes(), {}, 200
        headers["Last-Modified"] = formatdate(path.stat().st_mtime, usegmt=True)
        headers["ETag"] = f'"{path.stat().st_mtime_ns}"'
        if self.headers.get("Range"):
            first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
            start = int(first) if first else len(contents) - int(last)
            end = min(len(contents), int(last) + 1 if first and last else len(contents))
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(contents)}"
            contents, status = contents[start:end], 206
        self._answer(status, contents, headers, body)

    def _list(self, query: dict[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        self.received.append(f"LIST {prefix}")
        after = query.get("continuation-token") or query.get("start-after", "")
        keys = self._keys(prefix, after)
        page, entries, directories = keys[:PAGE], [], set()
        for key in page:
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                directories.add(prefix + rest.split(delimiter)[0] + delimiter)
                continue
            stored = (self.root / key).stat()
            entries.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{stored.st_size}</Size><ETag>&quot;{stored.st_mtime_ns}&quot;</ETag>"
                "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            )
        more = (
            f"<IsTruncated>true</IsTruncated><NextContinuationToken>{escape(page[-1])}</NextContinuationToken>"
            if len(keys) > PAGE
            else "<IsTruncated>false</IsTruncated>"
        )
        common = "".join(
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>"
            for each in sorted(directories)
        )
        text = f"<ListBucketResult><Name>{BUCKET}</Name>{''.join(entries)}{common}{more}</ListBucketResult>"
        self._answer(200, text.encode(), {"Content-Type": "application/xml"}, body=True)

    def _keys(self, prefix: str, after: str) -> list[str]:
        """The keys that begin with ``prefix`` and come behind ``after``, sorted."""
        below = self.root / prefix.rpartition("/")[0]
        keys = (str(path.relative_to(self.root)) for path in below.rglob("*") if path.is_file())
        return sorted(key for key in keys if key.startswith(prefix) and key > after)

    def _answer(self, status: int, contents: bytes, headers: dict[str, str], body: bool) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(contents))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(contents)


def main(root: str) -> None:
    """Serve ``root``; the port is printed."""
    _Requests.root, _Requests.received = Path(root), []
    with ThreadingHTTPServer(("127.0.0.1", 0), _Requests) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
