"""The files from which Spark's Java takes its settings and options when it starts.

All users of a machine can read a command line. So every setting reaches Java by a file that only
this user can read, and that is deleted once Java runs: Spark's settings by a file of properties,
Java's own options (`spark.driver.extraJavaOptions`) by an argument file. What Spark itself derives
from them is on the command line all the same: the memory and the class path.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dbt_common.exceptions import DbtRuntimeError

PREFIX = "java-"  # then the process's id
OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")  # in Java's order
HEAP = "-Xmx"  # refused by Spark itself, which sets the heap


@dataclass(frozen=True)
class LaunchFiles:
    """``properties``: Spark's settings; ``options``: Java's."""

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
    """Java's options of ``settings``, but for those that Spark must see."""
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
        raise DbtRuntimeError(
            f"profile: server_side_parameters: {name}: {error} in Java's options"
        ) from error


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
