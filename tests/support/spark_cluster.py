"""A standalone Spark cluster for tests: a master and workers from PySpark's jars, on 127.0.0.1."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark

from tests.support.processes import command_lines, free_port
from tests.support.waiting import wait_for

# what a session on the cluster sets: nothing leaves this machine
DRIVER = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "4",
}


class Worker:
    """A worker with one core. What its executors spill and shuffle is below ``scratch``."""

    def __init__(self, process: subprocess.Popen[bytes], scratch: Path):
        self.process, self.scratch = process, scratch

    def shuffled(self) -> set[Path]:
        """The shuffle files that its executors have written."""
        return set(self.scratch.rglob("shuffle_*.data"))

    def kill(self) -> None:
        """With SIGKILL, its executors too, and one that it is just starting."""
        if self.process.poll() is not None:
            return
        self._signal(self.process.pid, signal.SIGSTOP)
        for process in (*command_lines(self.process.pid), self.process.pid):
            self._signal(process, signal.SIGKILL)
        self.process.wait()

    @staticmethod
    def _signal(process: int, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(process, number)


class Cluster:
    """See `spark_cluster`."""

    def __init__(self, home: Path, resources: ExitStack):
        self._home, self._resources = home, resources
        self._log, self._started = home / "master.log", 0
        self.workers: list[Worker] = []  # those that were not killed
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        web = ["--webui-port", str(free_port())]
        self._start("master", "master.Master", ["--port", str(port), *web], [], home)

    def add_worker(self, within: Sequence[str] = ()) -> Worker:
        """A worker that has registered; ``within`` is a command that gets the worker's as its
        arguments, and has to become the worker.
        """
        self._started += 1
        scratch = self._home / f"scratch-{self._started}"
        arguments = ["--cores", "1", "--memory", "1500m", "--webui-port", "0"]
        arguments += ["--work-dir", str(self._home / "work"), self.url]
        process = self._start(f"worker-{self._started}", "worker.Worker", arguments, within, scratch)
        wait_for(lambda: self._registered() >= self._started, "a worker", process)
        self.workers.append(Worker(process, scratch))
        return self.workers[-1]

    def kill(self, worker: Worker) -> None:
        """The worker and its executors, at once."""
        self.workers.remove(worker)
        worker.kill()

    def _registered(self) -> int:
        return self._log.read_text().count("Registering worker")

    def _start(
        self, name: str, main: str, arguments: Sequence[str], within: Sequence[str], scratch: Path
    ) -> subprocess.Popen[bytes]:
        scratch.mkdir(exist_ok=True)
        spark = Path(pyspark.__file__).parent
        command = [*within, str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}"]
        environment = {
            "SPARK_HOME": str(spark),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(scratch),
            "SPARK_DAEMON_MEMORY": "256m",
        }
        streams: Any = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
        with (self._home / f"{name}.log").open("w") as output:
            process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", *arguments],
                stdout=output,
                env={**os.environ, **environment},
                cwd=self._home,
                **streams,
            )
        self._resources.callback(lambda: Worker(process, scratch).kill())
        return process


@contextmanager
def spark_cluster(home: Path) -> Iterator[Cluster]:
    """A master without workers yet, until the block ends."""
    home.mkdir(parents=True, exist_ok=True)
    with ExitStack() as resources:
        yield Cluster(home, resources)
