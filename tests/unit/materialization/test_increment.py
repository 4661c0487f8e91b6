"""Whether a session reads a query's text as it is read here."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.materialization.query_change import READ_WITH, read_otherwise


@pytest.mark.parametrize("name", READ_WITH)
def test_settings_that_decide_what_a_text_means_have_the_query_evaluated(name):
    other = {"true": "false", "false": "true"}.get(READ_WITH[name], "LEGACY")
    assert read_otherwise({name: other}) == f"{name} = {other}"
    assert read_otherwise({name: READ_WITH[name].upper()}) is None


def test_other_settings_do_not():
    assert read_otherwise({"spark.sql.shuffle.partitions": "2", "spark.sql.ansi.enabled": "false"}) is None
