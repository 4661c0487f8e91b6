"""What is shown while a model's statement runs."""

from __future__ import annotations

import re
import threading

import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.mvsink.connection import job_progress

TASKS = r", stage \d+, \d+ of \d+ tasks"
LINES = {  # what each method knows of a statement
    "session": re.compile(rf"(m\d): \d+ s{TASKS}(, [\d.]+( [kMG])? rows read)?"),
    "connect": re.compile(rf"(m\d): \d+ s{TASKS}"),
    "thrift": re.compile(r"(m\d): \d+ s"),
}
SLOW = "{{ config(materialized='table') }} select count(distinct hash(id)) as n from range(0, 3000000, 1, 40)"


class TestProgress:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target):
        return {**dbt_profile_target, "threads": 2, "progress": True}

    @pytest.fixture(scope="class")
    def models(self):
        return {"m1.sql": SLOW, "m2.sql": SLOW}

    def test_each_model_says_its_stage_and_its_tasks(self, project, monkeypatch, method):
        line_of = LINES["connect" if method == "warm" else method]
        lines, both = [], threading.Event()

        def collect(line):
            lines.append(line)
            if {match[1] for each in lines if (match := line_of.fullmatch(each))} == {"m1", "m2"}:
                both.set()

        monkeypatch.setattr(job_progress, "EVERY", 0)
        monkeypatch.setattr(job_progress, "TICK", 0.02)
        monkeypatch.setattr(job_progress.logger, "info", collect, raising=False)
        for _ in range(10):  # however fast the machine is
            run_dbt(["run"])
            if both.is_set():
                break
        assert both.is_set(), lines
        assert any("rows read" in line for line in lines) == (method == "session")
        assert all(
            line_of.fullmatch(line) or re.fullmatch(r"(m\d|the catalog): \d+ s", line) for line in lines
        ), lines
