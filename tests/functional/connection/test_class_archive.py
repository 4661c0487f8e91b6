"""The archive of Java's classes with the real Java: made by the first session's end, used by the
next, and no harm if it is broken.
"""

from __future__ import annotations

import os

import pytest

from tests.functional.connection.processes import Process
from tests.support.waiting import wait_for

pytestmark = pytest.mark.embedded("a server starts its own Java")

SESSION = """
from pathlib import Path
from pyspark import SparkContext
from dbt.adapters.mvsink.connection.factory import EMBEDDED
from dbt.adapters.mvsink.credentials import MvsinkCredentials
session = EMBEDDED.session(MvsinkCredentials(schema="s", server_side_parameters={
    "spark.sql.catalogImplementation": "in-memory", "spark.driver.memory": "1g"}))
print("rows", session.sql("select sum(id) from range(10)").collect(), flush=True)
maps = Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text()
print("archive is mapped:", "/dbt-mvsink/java-classes/" in maps, flush=True)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("class archive")  # with a space, as many have


def session(place, name, **environment):
    """A process that starts a session and ends it, with Java's options as users have them: none."""
    process = Process(
        place / "project",
        name,
        "-c",
        SESSION,
        **{"XDG_CACHE_HOME": str(place), "JDK_JAVA_OPTIONS": "", **environment},
    )
    assert process.end() == 0, process.outputs
    assert "rows [Row(sum(id)=45)]" in process.out, process.outputs
    return process


def archives(place):
    return sorted((place / "dbt-mvsink" / "java-classes").glob("*.jsa"))


@pytest.fixture(scope="module")
def archive(place):
    """Made when the first session has ended."""
    first = session(place, "first")
    assert "archive is mapped: False" in first.out and first.err == ""
    wait_for(lambda: archives(place), "an archive")
    (archive,) = archives(place)
    return archive


def test_the_second_session_uses_what_the_first_recorded(archive, place):
    second = session(place, "second")
    assert "archive is mapped: True" in second.out and second.err == ""
    assert archives(place) == [archive] and archive.stat().st_size > 10_000_000


def test_the_list_of_classes_is_gone(archive):
    assert sorted(os.listdir(archive.parent)) == [archive.name, "lock"]


def test_a_broken_archive_does_no_harm_and_is_not_tried_again(archive, place):
    whole = archive.stat().st_size
    archive.chmod(0o600)
    with open(archive, "r+b") as file:
        file.seek(whole // 3)
        file.write(os.urandom(1_000_000))
    third = session(place, "third")
    assert "archive is mapped: False" in third.out and third.err == ""
    assert archive.stat().st_size == 0  # what a session does with that: tests/unit/connection
