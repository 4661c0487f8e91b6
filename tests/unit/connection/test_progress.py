"""When a line about long work is due, and what it says. No Spark, no clock."""

from __future__ import annotations

import threading

import pytest

from dbt.adapters.mvsink.connection import job_progress
from dbt.adapters.mvsink.connection.job_progress import Reporter, Work


@pytest.fixture
def lines(monkeypatch):
    messages = []
    monkeypatch.setattr(job_progress.logger, "info", messages.append, raising=False)
    monkeypatch.setattr(job_progress.logger, "debug", lambda text: None, raising=False)
    return messages


@pytest.mark.parametrize(
    ("checked_after", "expected"),
    [
        ([1, 5, 9.9], []),  # short work is never mentioned
        ([9, 10, 11, 19], ["orders: 10 s, stage 1"]),
        ([10, 20, 29, 31], ["orders: 10 s, stage 1", "orders: 20 s, stage 1", "orders: 31 s, stage 1"]),
        ([300], ["orders: 300 s, stage 1"]),
    ],
)
def test_a_line_is_due_every_ten_seconds(lines, checked_after, expected):
    work = Work("orders", lambda _: "stage 1", began=1000)
    for after in checked_after:
        work.report(1000 + after)
    assert lines == expected


def failing(_):
    raise ConnectionError("the JVM is gone")


@pytest.mark.parametrize(
    ("details", "expected"),
    [(lambda _: "", ["orders: 10 s"]), (failing, [])],
    ids=["no job is running", "Spark cannot be asked"],
)
def test_what_is_not_known_is_left_out(lines, details, expected):
    Work("orders", details, began=1000).report(1010)
    assert lines == expected


def test_each_of_several_threads_is_reported_while_its_work_is_under_way_and_not_after(lines, monkeypatch):
    monkeypatch.setattr(job_progress, "EVERY", 0)
    monkeypatch.setattr(job_progress, "TICK", 0.001)
    reporter, ended = Reporter(), threading.Event()
    reported = {name: threading.Event() for name in ("a", "b")}

    def details(name):
        def noted(_):
            reported[name].set()
            assert not ended.is_set()
            return ""

        return noted

    def run(name):
        with reporter.reporting(Work(name, details(name))):
            assert reported["a"].wait(60) and reported["b"].wait(60)

    threads = [threading.Thread(target=run, args=(name,)) for name in reported]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {line.split(":")[0] for line in lines} <= set(reported)
    assert reporter._work == []


def test_progress_false_says_nothing(lines):
    with job_progress.starting_spark(False):
        pass
    assert lines == []
    with job_progress.starting_spark(True):
        pass
    assert lines == ["starting Spark"]
