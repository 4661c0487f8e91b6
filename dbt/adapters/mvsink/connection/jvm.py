"""The process of the embedded Spark's JVM: starting it, asking whether it is alive, stopping it."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger

from dbt.adapters.mvsink.connection.class_archive import JavaCommand
from dbt.adapters.mvsink.connection.launch_files import launch_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = AdapterLogger("mvsink")
ARGUMENTS = "PYSPARK_SUBMIT_ARGS"  # of `spark-submit`
STOP_TIMEOUT = 20  # seconds
# what PySpark imports in its first calls, with pandas among it
NEEDED_SOON = ("pyspark.testing.utils", "pyspark.sql.classic.dataframe")


def launch(settings: Mapping[str, str], home: Path, log: Path, options: Sequence[str]) -> None:
    """Start the JVM with Spark's ``settings``, by files in ``home`` (`launch_files`), and Java's
    ``options``, which the user's own override. Its output, from the greeting on, goes to ``log``.
    """
    from pyspark import SparkContext, java_gateway

    own = os.environ.get(ARGUMENTS, "pyspark-shell")
    java = " ".join([*(f'"{option}"' for option in options), os.environ.get("SPARK_SUBMIT_OPTS", "")])
    with (
        open(log, "ab") as file,
        launch_files(home, settings, own) as files,
        _environment({"SPARK_SUBMIT_OPTS": java, ARGUMENTS: files.arguments(own)}),
        _importing(NEEDED_SOON),
    ):
        launch_gateway: Any = java_gateway.launch_gateway
        SparkContext._ensure_initialized(gateway=launch_gateway(None, {"stdout": file, "stderr": file}))


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
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Inside, these environment variables have these values."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _importing(modules: Sequence[str]) -> Iterator[None]:
    """Inside, another thread imports them, while this one waits for Java."""

    def load() -> None:
        for module in modules:
            with suppress(Exception):  # its user will see the error
                importlib.import_module(module)

    thread = threading.Thread(target=load, name="import", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def java_command() -> JavaCommand:
    """The running JVM's command, as far as an archive of its classes depends on it."""
    system, management = _java().lang.System, _java().lang.management.ManagementFactory
    arguments = [str(each) for each in management.getRuntimeMXBean().getInputArguments()]
    return JavaCommand(
        os.path.join(system.getProperty("java.home"), "bin", "java"),
        (
            *(each for each in arguments if each.startswith("--")),  # modules
            "-cp",
            system.getProperty("java.class.path"),
        ),
    )


def uses_archive() -> bool:
    """Whether the running JVM has mapped an archive of classes."""
    bean = _java().lang.management.ManagementFactory.getPlatformMXBean(
        _java().lang.Class.forName("com.sun.management.HotSpotDiagnosticMXBean")
    )
    return str(bean.getVMOption("UseSharedSpaces").getValue()) == "true"


def _java() -> Any:
    from pyspark import SparkContext

    assert SparkContext._gateway is not None
    return SparkContext._gateway.jvm.java


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
