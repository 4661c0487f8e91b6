"""The process of the embedded Spark's JVM: starting it, asking whether it is alive, stopping it."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

logger = AdapterLogger("mvsink")
STOP_TIMEOUT = 20  # seconds


def launch(conf: SparkConf, log: Path) -> None:
    """Start the JVM. Its output, from the greeting on, goes to ``log``."""
    from pyspark import SparkContext, java_gateway

    with open(log, "ab") as file:
        launch_gateway: Any = java_gateway.launch_gateway
        SparkContext._ensure_initialized(gateway=launch_gateway(conf, {"stdout": file, "stderr": file}))


def is_launched() -> bool:
    """Whether this process has a JVM, alive or not."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def pid() -> int | None:
    """The JVM's process id; None if there is no JVM, or another process started it."""
    process = _process()
    return None if process is None else int(process.pid)


def exit_code() -> int | None:
    """The JVM's exit code; None while it runs."""
    process = _process()
    return None if process is None else process.poll()


def is_stopped(session: SparkSession) -> bool:
    """Whether the session's Spark context has been stopped."""
    context = session.sparkContext._jsc
    return context is None or bool(context.sc().isStopped())


def stop(session: SparkSession) -> None:
    """Stop Spark and wait for the JVM to end; kill it after `STOP_TIMEOUT`."""
    from pyspark import SparkContext

    process = _process()
    try:
        session.stop()
        if SparkContext._gateway is not None and process is not None:
            SparkContext._gateway.shutdown()
    except Exception as error:  # this process is ending: the error can only be logged
        logger.debug(f"stopping Spark: {error}")
    if process is None:
        return
    process.stdin.close()  # which ends the JVM
    try:
        process.wait(timeout=STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def own_interrupts() -> Iterator[None]:
    """Keep this process's handler of Ctrl-C: PySpark's calls the JVM within a call, and hangs."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _process() -> Any:
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None)
