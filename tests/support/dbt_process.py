"""One process that runs dbt's commands one after the other, with one Spark session for all of them:
a test changes something between two of them, and pays for one start of Java.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import LIMIT

END = "-- end of the command:"
COMMANDS = f"""
import faulthandler, json, os, sys
from dbt.adapters.mvsink import failpoints
from dbt.cli.main import dbtRunner
from tests.support import quick_dbt

quick_dbt.install()

def wait(reached):
    if reached == point:
        print("reached", flush=True)
        sys.stdin.readline()

for line in sys.stdin:
    arguments, point = json.loads(line)
    faulthandler.dump_traceback_later({LIMIT - 5}, exit=True)
    failpoints.install(wait)
    result = dbtRunner().invoke([*arguments, "--profiles-dir", ".", "--no-use-colors"])
    if result.exception is not None:
        print(result.exception)
    print("{END}", "ok" if result.success else "failed", flush=True)
"""


@dataclass(frozen=True)
class Outcome:
    """How one command ended, and everything that the process wrote meanwhile."""

    success: bool
    output: str


class DbtProcess:
    """See `dbt_process`."""

    def __init__(self, process: subprocess.Popen[str]):
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def dbt(self, *arguments: str) -> str:
        """The output of a command that has to succeed."""
        outcome = self.outcome(*arguments)
        assert outcome.success, outcome.output
        return outcome.output

    def outcome(self, *arguments: str) -> Outcome:
        self.begin(*arguments)
        return self.end()

    def begin(self, *arguments: str) -> None:
        """Begin a command, and do not wait."""
        self._send([arguments, None])

    def start(self, point: str, *arguments: str) -> None:
        """Begin a command, and return when it first reaches this failpoint, where it waits."""
        self._send([arguments, point])
        output = ""
        for line in self._lines():
            output += line
            if line == "reached\n":
                return
            assert not line.startswith(END), f"{point!r} was not reached:\n{output}"

    def go_on(self) -> Outcome:
        """Let a command that waits at its failpoint go on, to its end."""
        self._send(None)
        return self.end()

    def _send(self, message: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def end(self) -> Outcome:
        """How the command that was begun ends."""
        output = ""
        for line in self._lines():
            if line.startswith(END):
                return Outcome(line.endswith(" ok\n"), output)
            if line == "reached\n":  # again, by another model
                self._send(None)
            else:
                output += line
        raise AssertionError("unreachable")

    def _lines(self) -> Iterator[str]:
        assert self._process.stdout is not None
        output = ""
        for line in self._process.stdout:
            output += line
            yield line
        raise AssertionError(f"the process ended with {self._process.wait()}:\n{output}")


@contextmanager
def dbt_process(place: Path, environment: Mapping[str, str] = {}) -> Iterator[DbtProcess]:
    """A process in the project's directory ``place``, until the block ends."""
    root = str(Path(__file__).resolve().parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(COMMANDS)],
        cwd=place,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": root, **environment},
    ) as process:
        try:
            yield DbtProcess(process)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=60)
        finally:
            process.kill()
