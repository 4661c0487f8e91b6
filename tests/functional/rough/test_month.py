"""Ten days of the month of a shop (`tests.long.month`), in a process of its own: nothing is wrong
in them, and what a team looks at says what happened.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.small_data import INTERPRETED

DAYS = 10


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """What was printed, by the day."""
    root = tmp_path_factory.mktemp("month")
    transcript = root / "transcript"
    settings = json.dumps({"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2", **INTERPRETED})
    command = [sys.executable, "-m", "tests.long.month", "--count", str(DAYS), "--settings", settings]
    done = subprocess.run(
        [*command, "--transcript", str(transcript)], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    texts = transcript.read_text().split("===== day ")
    return {int(text.partition(":")[0]): " ".join(text.split()) for text in texts[1:]}


def test_a_model_that_fails_for_a_week_is_shown_with_its_days(days):
    assert "margin view failed 1 d" in days[3] and "[DIVIDE_BY_ZERO]" in days[3].split("margin: failed")[1]
    for day in range(4, DAYS):
        assert f"margin view failed, {day - 2} runs {day - 2} d" in days[day]
        assert f"as in all of the last {day - 2} runs since 2026-06-03T" in days[day]
    assert "margin: failed" not in days[10]


def test_a_bad_query_is_found_in_the_history_by_who_deployed_it(days):
    assert "columns widened" in days[4] and "new query" in days[4] and " ada " in days[4]
    assert "+select day, country, count(*) as orders, sum(100 * amount) as revenue" in days[4]


def test_a_delete_of_another_tool_is_explained_and_repaired(days):
    assert "daily_revenue: evaluated: another tool wrote to its shard" in days[5]
    assert "(full: other tool)" in days[5]


def test_a_plan_goes_on_behind_a_change(days):
    assert "from what orders would hold" in days[7] and "+0 -0 from" not in days[7]
    assert "columns widened" in days[7]
    assert "order_log ? a task: it would process what orders would change" in days[7]
    assert "dbt-mvsink: " not in days[7].partition("$ dbt build")[0]  # a plan warns of nothing


def test_a_mistake_is_stopped_by_the_gate(days):
    assert "buyers view failed" in days[8] and "max_change allows 40 %" in days[8]
    assert "buyers: failed" not in days[9]


def test_a_run_with_warnings_ends_with_a_line_that_names_them(days):
    assert all("dbt-mvsink: 1 warning: orders (1)" in day for day in days.values())
