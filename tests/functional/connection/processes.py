"""dbt in processes of its own: what it prints, how it ends, and what is left beside the project."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import wait_for

DEFAULT = "{type: mvsink, schema: s}"


def make_project(root: Path, models: Mapping[str, str], profile: str = DEFAULT) -> Path:
    """A project directory with its profile in it."""
    (root / "models").mkdir(parents=True)
    for name, text in models.items():
        (root / "models" / f"{name}.sql").write_text(text)
    (root / "dbt_project.yml").write_text(
        "name: p\nversion: '1.0'\nprofile: p\nflags: {send_anonymous_usage_stats: false}\n"
    )
    set_profile(root, profile)
    return root


def set_profile(root: Path, profile: str) -> None:
    (root / "profiles.yml").write_text(f"p: {{target: dev, outputs: {{dev: {profile}}}}}\n")


class Process:
    """A Python process whose outputs are files, read while it runs. Its Ctrl-C works even where its
    parent's is off.
    """

    def __init__(self, place: Path, name: str, *arguments: str, cwd: Path | None = None, **environment: str):
        self.java = ""  # the command line of its Java, for those who look for it
        place.mkdir(parents=True, exist_ok=True)
        self._out, self._err = place / f"{name}.out", place / f"{name}.err"
        with open(self._out, "w") as out, open(self._err, "w") as err, own_ctrl_c():
            self.popen = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=cwd or place,
                stdout=out,
                stderr=err,
                env={**_own_environment(), "DBT_USE_COLORS": "false", **environment},
            )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    @property
    def outputs(self) -> str:
        return f"{self.out}\n--- stderr\n{self.err}"

    def until(self, text: str) -> None:
        """Waits for a text on stdout."""
        self.until_true(lambda: text in self.out, repr(text))

    def until_true(self, done: Callable[[], object], what: str) -> None:
        """Waits; `AssertionError` with all that it printed if it ends before."""
        try:
            wait_for(done, what, self.popen)
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{self.outputs}") from None

    def end(self, seconds: float = 550) -> int:
        """Its exit code; killed if it takes longer."""
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            raise AssertionError(f"still running after {seconds} s:\n{self.outputs}") from None


@contextmanager
def own_ctrl_c() -> Iterator[None]:
    """What starts inside does not ignore Ctrl-C. Not a `preexec_fn`: with that, Python forks, and
    gRPC, which this process has loaded for a Connect server, can abort the child before it is
    another program.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _own_environment() -> dict[str, str]:
    """This process's variables, without those that PySpark sets where it uses Connect."""
    connected = ("SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE", "SPARK_LOCAL_REMOTE")
    return {name: value for name, value in os.environ.items() if name not in connected}


def dbt(project: Path, name: str, *arguments: str, cwd: Path | None = None, **environment: str) -> Process:
    """The `dbt` command on this project, as from a terminal."""
    place = ["--project-dir", str(project), "--profiles-dir", str(project)]
    return Process(
        project.parent,
        name,
        "-c",
        "from dbt.cli.main import cli; cli()",
        *arguments,
        *place,
        cwd=cwd,
        **environment,
    )
