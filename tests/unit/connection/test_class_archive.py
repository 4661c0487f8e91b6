"""The archive of Java's classes: its key, what a session does with it, how it is made. Java is a
shell script here; `tests/functional/connection/test_class_archive.py` has the real one.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dbt.adapters.mvsink.connection import class_archive_maker, embedded, java, jvm
from dbt.adapters.mvsink.connection.java import ClassArchive, Java, JavaCommand, archive_for, cache_directory
from tests.support.waiting import wait_for

JAVA = Java(
    "/opt/java/bin/java", 17, 'openjdk version "17.0.15"\nOpenJDK 64-Bit Server VM (mixed mode, sharing)'
)
# makes a file of the archive's name; `-version` stands for the check of it
MAKES = """
for each in "$@"; do case $each in -XX:SharedArchiveFile=*) made=${each#*=};; esac; done
case "$*" in *-version) test -s "$made";; *) %s echo classes > "$made";; esac
"""


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    """An installation with one jar, a cache directory, and no options of the user's."""
    for variable in java.OPTION_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "one.jar").write_text("1")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def archive(home):
    return archive_for({}, JAVA)


def java_that(home: Path, first: str = "") -> JavaCommand:
    script = home / "java"
    script.write_text("#!/bin/sh\n" + MAKES % first)
    script.chmod(0o755)
    return JavaCommand(str(script), ("-cp", "one.jar"))


def record(archive: ClassArchive, java: JavaCommand, code: int = 0) -> None:
    """A session that records and ends, and its maker."""
    [*_, option] = archive.options()
    Path(option.split("=")[1]).write_text("java/lang/Object id: 0\n")
    maker = archive.ended(code, java)
    if maker is not None:
        assert maker.wait(60) == 0


def in_the_cache() -> list[str]:
    return sorted(file.suffix or file.name for file in cache_directory().iterdir())


# its key


def test_the_key_stays_while_nothing_changes():
    assert archive_for({"spark.sql.shuffle.partitions": "7"}, JAVA).path == archive_for({}, JAVA).path


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda home: ({}, replace(JAVA, text=JAVA.text + "+1")), id="Java's version"),
        pytest.param(lambda home: ({}, replace(JAVA, path="/elsewhere/bin/java")), id="Java's path"),
        pytest.param(lambda home: ({"spark.jars.packages": "g:a:1"}, JAVA), id="packages"),
        pytest.param(lambda home: ({"spark.jars": "/x.jar"}, JAVA), id="jars"),
        pytest.param(
            lambda home: [({}, JAVA), (home / "spark" / "jars" / "two.jar").touch()][0], id="a jar more"
        ),
        pytest.param(
            lambda home: [({}, JAVA), (home / "spark" / "jars" / "one.jar").write_text("22")][0],
            id="another jar",
        ),
    ],
)
def test_the_key_changes_with(home, archive, change):
    assert archive_for(*change(home)).path != archive.path


def test_the_key_changes_with_pyspark(monkeypatch, archive):
    monkeypatch.setattr("pyspark.__version__", "9.9")
    assert archive_for({}, JAVA).path != archive.path


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {"HOME": "/u"}, "/u/.cache/dbt-mvsink/java-classes"),
        ("linux", {"HOME": "/u", "XDG_CACHE_HOME": "/c"}, "/c/dbt-mvsink/java-classes"),
        ("linux", {"HOME": "/u", "XDG_CACHE_HOME": "relative"}, "/u/.cache/dbt-mvsink/java-classes"),
        ("darwin", {"HOME": "/u"}, "/u/Library/Caches/dbt-mvsink/java-classes"),
    ],
)
def test_where_archives_are(monkeypatch, platform, environment, expected):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert str(cache_directory()) == expected


# where there is none


@pytest.mark.parametrize("variable", java.OPTION_VARIABLES)
@pytest.mark.parametrize("option", ["-Xshare:off", "-XX:SharedArchiveFile=/a", "-XX:AOTCache=/a"])
def test_a_user_who_arranges_archives_is_left_alone(monkeypatch, variable, option):
    monkeypatch.setenv(variable, f"-Xmx2g {option}")
    assert archive_for({}, JAVA) is None


@pytest.mark.parametrize("setting", java.OPTION_SETTINGS)
def test_also_in_the_profile(setting):
    assert archive_for({setting: "-XX:SharedArchiveFile=/a"}, JAVA) is None
    assert archive_for({setting: "-XX:+UseSerialGC"}, JAVA) is not None


def test_a_java_without_class_data_sharing():
    assert archive_for({}, replace(JAVA, text="Eclipse OpenJ9 VM")) is None


def test_an_installation_without_jars(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "gone"))
    assert archive_for({}, JAVA) is None


@pytest.mark.parametrize("character", ['"', ":", "%", "\\"])
def test_a_path_that_java_would_take_apart(monkeypatch, tmp_path, character):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"a{character}b"))
    assert archive_for({}, JAVA) is None


def test_a_cache_directory_that_cannot_be_made(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(logging.getLogger("mvsink"), "propagate", True)
    caplog.set_level(logging.DEBUG, "mvsink.connection")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    archive = archive_for({}, JAVA)
    assert archive.options() == []
    assert archive.ended(0, None) is None
    assert {record.levelname for record in caplog.records} == {"DEBUG"}
    assert "no archive of Java's classes: " in caplog.text


def test_an_archive_in_a_read_only_directory_is_used(monkeypatch, home, archive):
    record(archive, java_that(home))

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "utime", refuse)
    assert archive.options()[-1] == f"-XX:SharedArchiveFile={archive.path}"


# how it is made


def test_the_first_session_records_and_later_ones_use_what_was_made_of_it(home, archive):
    assert archive.options()[-1].startswith("-XX:DumpLoadedClassList=")
    record(archive, java_that(home))
    assert archive.path.read_text() == "classes\n"
    assert in_the_cache() == [".jsa", "lock"]
    os.utime(archive.path, (0, 0))
    assert archive.options()[-1] == f"-XX:SharedArchiveFile={archive.path}"
    assert archive.path.stat().st_mtime > 0  # used now
    assert archive.ended(0, java_that(home)) is None


@pytest.mark.parametrize("code", [1, 143, -9, None])
def test_a_java_that_did_not_end_by_itself_listed_only_a_part(home, archive, code):
    record(archive, java_that(home), code)
    assert in_the_cache() == []


def test_two_at_once_make_one(home, archive):
    """The first is still at work when the second ends."""
    slow = java_that(home, f"echo >> {home}/made; sleep 1;")
    tasks = []
    for each in ("a", "b"):
        (cache_directory()).mkdir(parents=True, exist_ok=True)
        classes = cache_directory() / f"{each}.classes"
        classes.touch()
        task = {
            "java": slow.program,
            "options": slow.options,
            "classes": str(classes),
            "archive": str(archive.path),
            "now": time.time(),
        }
        tasks.append([sys.executable, "-IS", class_archive_maker.__file__, json.dumps(task)])
    makers = [subprocess.Popen(task) for task in tasks]
    assert [maker.wait(60) for maker in makers] == [0, 0]
    assert (home / "made").read_text() == "\n"
    assert in_the_cache() == [".jsa", "lock"]


def test_a_java_that_refuses_is_not_asked_again(home, archive):
    record(archive, java_that(home, "exit 1;"))
    assert archive.path.read_bytes() == b""
    assert archive.options() == []


def test_after_a_month_it_is_asked_again(home, archive):
    record(archive, java_that(home, "exit 1;"))
    os.utime(archive.path, (0, 0))
    record(archive, java_that(home))
    assert archive.path.read_text() == "classes\n"


def test_an_archive_that_java_does_not_take_is_not_kept(home, archive):
    record(archive, java_that(home, "exit 0;"))
    assert archive.path.read_bytes() == b""


def test_a_java_that_is_killed_is_asked_again(home, archive):
    record(archive, java_that(home, "kill -9 $$;"))
    assert in_the_cache() == ["lock"]
    record(archive, java_that(home))
    assert archive.path.exists()


def test_a_killed_maker_leaves_no_archive_and_what_it_leaves_is_deleted(home, archive):
    archive.options()
    archive._recorded.touch()
    maker = archive.ended(0, java_that(home, 'echo half > "$made"; sleep 1000;'))
    wait_for(lambda: list(cache_directory().glob("*.making")), "half an archive", maker)
    os.killpg(maker.pid, signal.SIGKILL)
    maker.wait()
    assert not archive.path.exists()
    for left in [*cache_directory().glob("*.making"), *cache_directory().glob("*.classes")]:
        os.utime(left, (0, 0))
    record(archive, java_that(home))
    assert in_the_cache() == [".jsa", "lock"]


def test_without_space_nothing_is_made(monkeypatch, home, archive):
    monkeypatch.setattr(class_archive_maker, "NEEDED", 2**80)
    archive.options()
    java = java_that(home)
    class_archive_maker.make(
        java.program, java.options, str(archive._recorded), str(archive.path), time.time()
    )
    assert in_the_cache() == ["lock"]


def test_old_archives_are_deleted(home):
    directory = home / "archives"
    directory.mkdir()
    day = 24 * 3600
    now = 100.0 * day
    for name, age in [
        ("a.jsa", 0),
        ("b.jsa", 29),
        ("c.jsa", 31),
        ("1.classes", 2),
        ("2.making", 0),
        ("lock", 99),
    ]:
        (directory / name).touch()
        os.utime(directory / name, (now - age * day, now - age * day))
    class_archive_maker.clean(directory, now)
    assert sorted(os.listdir(directory)) == ["2.making", "a.jsa", "b.jsa", "lock"]


def test_four_archives_are_kept(home):
    directory = home / "archives"
    directory.mkdir()
    for number in range(6):
        (directory / f"{number}.jsa").touch()
        os.utime(directory / f"{number}.jsa", (1000 + number, 1000 + number))
    class_archive_maker.clean(directory, 1010)
    assert sorted(os.listdir(directory)) == ["2.jsa", "3.jsa", "4.jsa", "5.jsa"]


# an archive that is broken


@pytest.mark.parametrize("signal_", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL])
def test_after_a_crash_sessions_do_without(home, archive, signal_):
    record(archive, java_that(home))
    archive.options()
    archive.ended(-signal_, None)
    assert archive.path.read_bytes() == b""
    assert archive.options() == []


def test_a_session_that_was_killed_says_nothing_about_its_archive(home, archive):
    record(archive, java_that(home))
    archive.ended(-signal.SIGKILL, None)
    assert archive.path.read_text() == "classes\n"


class Launches:
    """Stands for the `jvm` module: Java starts unless it is given one of these options."""

    def __init__(self, monkeypatch, refused: tuple[str, ...], uses_archive: bool = True):
        self.options: list[list[str]] = []
        self._refused = refused
        monkeypatch.setattr(jvm, "launch", self._launch)
        monkeypatch.setattr(jvm, "uses_archive", lambda: uses_archive)
        monkeypatch.setattr(jvm, "java_command", lambda: None)

    def _launch(self, conf, home, log, options):
        self.options.append(options)
        if any(option.startswith(self._refused) for option in ("", *options)):
            raise OSError("no gateway")


@pytest.mark.parametrize("recorded", [False, True])
def test_a_java_that_does_not_start_with_the_archive_s_options_starts_without(
    monkeypatch, home, archive, recorded
):
    if recorded:
        record(archive, java_that(home))
    launches = Launches(monkeypatch, refused=("-XX:",))
    embedded.EmbeddedSpark()._launch({}, home, archive)
    assert [bool(options) for options in launches.options] == [True, False]
    assert archive.path.read_bytes() == b"" and not archive.is_recording()


def test_a_java_that_does_not_start_at_all_says_nothing_about_the_archive(monkeypatch, home, archive):
    record(archive, java_that(home))
    Launches(monkeypatch, refused=("",))
    with pytest.raises(OSError, match="no gateway"):
        embedded.EmbeddedSpark()._launch({}, home, archive)
    assert archive.path.read_text() == "classes\n"


@pytest.mark.parametrize(("uses_archive", "kept"), [(True, "classes\n"), (False, "")])
def test_an_archive_that_java_does_without_is_emptied(monkeypatch, home, archive, uses_archive, kept):
    record(archive, java_that(home))
    Launches(monkeypatch, refused=("none",), uses_archive=uses_archive)
    embedded.EmbeddedSpark()._launch({}, home, archive)
    assert archive.path.read_text() == kept
