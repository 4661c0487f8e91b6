"""The process of the embedded Spark's JVM: starting it, asking whether it is alive, stopping it.

All users of a machine can read a command line. So every setting reaches Java by a file that only
this user can read, and that is deleted once Java runs: Spark's settings by a file of properties,
Java's own options (`spark.driver.extraJavaOptions`) by an argument file (`launch_files`). Only what
Spark itself derives from them is on the command line: the memory and the class path.
"""

from __future__ import annotations

import importlib
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from dbt.adapters.events.logging import AdapterLogger

from dbt.adapters.mvsink.connection.java import JavaCommand
from dbt.adapters.mvsink.exceptions import WrongProfile

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


def json_writer(session: SparkSession) -> tuple[Any, Any]:
    """What makes a Java map of Scala's, and Java's writer of JSON, which any thread may use. To
    look them up takes ten calls of the JVM.
    """
    if session not in _json_writers:
        java: Any = session._jvm
        convert = java.scala.jdk.javaapi.CollectionConverters.asJava
        _json_writers[session] = convert, java.com.fasterxml.jackson.databind.ObjectMapper()
    return _json_writers[session]


_json_writers: WeakKeyDictionary[SparkSession, tuple[Any, Any]] = WeakKeyDictionary()


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
    """A context in which these environment variables have these values."""
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
    """A context in which another thread imports the modules while this one waits for Java."""

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


PREFIX = "java-"  # then the process's id
OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")  # in Java's order
HEAP = "-Xmx"  # refused by Spark itself, which sets the heap


@dataclass(frozen=True)
class LaunchFiles:
    """``properties`` is the file of Spark's settings, ``options`` that of Java's options."""

    properties: Path
    options: Path

    def arguments(self, own: str) -> str:
        """The arguments of `spark-submit`, before the user's ``own``. Those may name a file of
        properties: ours has its contents, and is read instead.
        """
        before, file, after = _split(own)
        words = [
            *before,
            "--properties-file",
            str(self.properties),
            *([] if file else ["--load-spark-defaults"]),
        ]
        return shlex.join([*words, *after])


@contextmanager
def launch_files(home: Path, settings: Mapping[str, str], own: str = "") -> Iterator[LaunchFiles]:
    """The files in ``home`` for ``settings``; deleted afterwards. ``own``: the user's arguments of
    `spark-submit`.
    """
    _remove_left(home)
    files = LaunchFiles(home / f"{PREFIX}{os.getpid()}.properties", home / f"{PREFIX}{os.getpid()}.options")
    inherited = _split(own)[1]
    try:
        _write(files.options, "".join(f"{quoted(option)}\n" for option in java_options(settings)))
        text = Path(inherited).read_text() + "\n" if inherited else ""
        _write(files.properties, text + properties(_with_file(settings, files.options)))
        yield files
    finally:
        for path in (files.properties, files.options):
            path.unlink(missing_ok=True)


def java_options(settings: Mapping[str, str]) -> list[str]:
    """Java's options in ``settings``, except those that Spark must see."""
    return [each for name in OPTIONS for each in _words(settings, name) if not each.startswith(HEAP)]


def properties(settings: Mapping[str, str]) -> str:
    """``settings`` as Java reads a file of properties, in ASCII.

    >>> properties({"a b": "1=2\\n ü"})
    'a\\\\u0020b=1\\\\u003d2\\\\u000a\\\\u0020\\\\u00fc\\n'
    """
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in settings.items())


def quoted(option: str) -> str:
    """One option in an argument file of Java, and among the options that Spark takes apart.

    >>> quoted('-Da=b "c"')
    '"-Da=b \\\\"c\\\\""'
    """
    escaped = option.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _with_file(settings: Mapping[str, str], options: Path) -> dict[str, str]:
    """``settings`` with Java's options in that file."""
    heap = {name: [each for each in _words(settings, name) if each.startswith(HEAP)] for name in OPTIONS}
    left = {name: " ".join(map(quoted, values)) for name, values in heap.items() if name in settings}
    return {**settings, **left, OPTIONS[1]: f"{left.get(OPTIONS[1], '')} {quoted(f'@{options}')}".strip()}


def _words(settings: Mapping[str, str], name: str) -> list[str]:
    try:
        return shlex.split(settings.get(name, ""))
    except ValueError as error:
        raise WrongProfile(f"profile: server_side_parameters: {name}: {error} in Java's options") from error


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)]
    return "".join(chr(code) if _plain(code) else f"\\u{code:04x}" for code in codes)


def _plain(code: int) -> bool:
    return code < 128 and (chr(code).isalnum() or chr(code) in "-._/;,@$*+()[]{}<>?&%'|~^")


def _split(own: str) -> tuple[list[str], str, list[str]]:
    """The user's arguments before and after a `--properties-file`, and that file; "" if none."""
    words = shlex.split(own)
    for i, word in enumerate(words):
        if word == "--properties-file" and i + 1 < len(words):
            return words[:i], words[i + 1], words[i + 2 :]
        if word.startswith("--properties-file="):
            return words[:i], word.partition("=")[2], words[i + 1 :]
    return [], "", words


def _write(path: Path, text: str) -> None:
    """A new file that only this user can read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _remove_left(home: Path) -> None:
    """Delete the files of processes that were killed while they started Java."""
    for path in home.glob(f"{PREFIX}*"):
        number = path.stem.removeprefix(PREFIX)
        if number.isdigit() and not _runs(int(number)):
            path.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    with suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
    return True
