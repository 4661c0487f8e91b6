"""An S3 server for tests: moto's, in a process of its own, on 127.0.0.1.

In a process of its own because the store of the logs holds Python's lock while it waits. It ends
with the process that started it, whose end of its input is then closed.

It answers one request at a time: moto looks whether an object exists and then writes it, so of two
puts at once that must not replace anything both may succeed. S3 lets one of them succeed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.support.processes import free_port

BUCKET = "shards"
KEY, SECRET = "test-access-key", "test-secret-key"
STARTS_IN = 60.0  # seconds
SERVER = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
from moto.server import DomainDispatcherApplication, main
at_a_time, answer = threading.Lock(), DomainDispatcherApplication.__call__
def answer_alone(*request):
    with at_a_time:
        return answer(*request)
DomainDispatcherApplication.__call__ = answer_alone
main()
"""


def options(port: int, secret: str = SECRET) -> dict[str, str]:
    """The `deltalake` package's options for the server at ``port``, which takes any secret."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
    }


@contextmanager
def moto_server(log: Path) -> Iterator[int]:
    """A server with an empty bucket, until the block ends: its port. ``log`` gets its output."""
    port = free_port()
    command = [sys.executable, "-c", SERVER, "-H", "127.0.0.1", "-p", str(port)]
    streams: Any = {"stdin": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with log.open("w") as output, subprocess.Popen(command, stdout=output, **streams) as process:
        try:
            _make_bucket(port, process)
            yield port
        finally:
            process.kill()


def _make_bucket(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + STARTS_IN
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(URLError, ConnectionError):
            urlopen(Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")).close()
            return
        time.sleep(0.1)
    raise RuntimeError(f"moto's server did not start within {STARTS_IN} s")
