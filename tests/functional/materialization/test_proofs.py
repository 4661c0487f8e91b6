"""A new reading of a query proves itself, by the query as its author wrote it."""

from __future__ import annotations

import json

import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.materialization.evidence import InputEvidence
from tests.functional.materialization.base import responses

VIEW = "{{ config(materialized='self_correcting_mv') }} "
ALWAYS = "{{ config(materialized='self_correcting_mv', incremental='always') }} "
OVER_SOLD = ("--select", "sold", "large")
SOLD = "select s, n from {{ ref('sold') }} where n > {{ var('least', 0) }}"


class TestProofs:
    @pytest.fixture(scope="class")
    def models(self):
        rows = "values ('a', 1), ('b', 2), ('c', {{ var('c', 3) }})"
        return {
            "sold.sql": VIEW + f"select * from ({rows}) v(s, n)",
            "doubled.sql": "select s, 2 * n n from {{ ref('sold') }}",  # a view of dbt's
            "large.sql": ALWAYS + SOLD,
            "through.sql": ALWAYS + "select s from {{ ref('doubled') }} where n > {{ var('least', 0) }}",
            "never.sql": ALWAYS.replace("always", "always', verify='never") + SOLD,
        }

    def run(self, c, *args, **variables):
        """Which models were verified."""
        run_dbt(["run", "--vars", json.dumps({"c": c, **variables}), *args])
        return {name: each.get("verified") for name, each in responses(self.project).items()}

    @pytest.fixture(autouse=True)
    def keep(self, project):
        self.project = project

    def test_the_first_the_second_the_fourth_and_so_on_are_verified(self, project):
        verified = []
        for c in range(3, 7):
            run = self.run(c)
            rows = project.run_sql(f"select s, n from {project.test_schema}.large order by s", fetch="all")
            assert list(map(tuple, rows)) == [("a", 1), ("b", 2), ("c", c)]
            assert (run["never"], run["through"]) == (False, run["large"])
            verified.append(run["large"])
        assert verified == [True, True, True, False]  # the first one loads
        assert responses(project)["large"]["mode"] == "incremental"
        assert not any(self.run(6).values())  # what is unchanged is not evaluated
        # another definition is evaluated, and begins again
        assert [self.run(c, *OVER_SOLD, least=1)["large"] for c in (7, 8)] == [False, True]

    @pytest.mark.seldom
    def test_other_rules_are_proved_by_a_tenth_of_the_models_in_each_run(self, project, monkeypatch):
        for c in (20, 21):
            self.run(c)
        monkeypatch.setattr("dbt.adapters.mvsink.sink.trust.RULES", 10**6)
        assert sum(map(bool, self.run(22).values())) == 1
        monkeypatch.setattr(limits, "PROVING_SHARE", 1)
        monkeypatch.setattr("dbt.adapters.mvsink.sink.trust.RULES", 10**6 + 1)
        assert sum(map(bool, self.run(23).values())) == 2

    def test_a_rule_that_is_wrong_is_noticed_by_the_first_run(self, project, monkeypatch, caplog):
        """A rule that takes the changed input for one that did not change."""

        def stale(evidence, state, recorded, time, right=InputEvidence.increment):
            increment = right(evidence, state, recorded, time)
            if not hasattr(increment, "inputs") or "large" not in evidence.context.model:
                return increment
            return type(increment)(increment.analysed, (), increment.clock, False, increment.reading)

        self.run(30, *OVER_SOLD, least=-1)
        with monkeypatch.context() as wrong:
            wrong.setattr(InputEvidence, "increment", stale)
            assert self.run(31, *OVER_SOLD, least=-1)["large"]
        [warning] = responses(project)["large"]["warnings"]
        assert (
            "verification found drift: +1 -1 rows that no change of an input explains; corrected" in warning
        )
        assert "please report this with the query and the definition" in warning
        rows = project.run_sql(f"select max(n) from {project.test_schema}.large", fetch="one")
        assert tuple(rows) == (31,)
        assert self.run(32, *OVER_SOLD, least=-1)["large"]  # again
        assert not responses(project)["large"]["warnings"]

    @pytest.mark.seldom
    def test_a_splice_that_is_wrong_is_noticed_by_a_verification(self, project, monkeypatch):
        """References that are read otherwise than the text says: also where all is evaluated."""

        def other(references, query, time, right=References.read_at):
            return right(references, query.replace("where n >", "where n + 1 >"), time)

        self.run(2, "--full-refresh", least=1)
        with monkeypatch.context() as wrong:
            wrong.setattr(References, "read_at", other)
            self.run(2, "--full-refresh", least=1)
        rows = f"select count(*) from {project.test_schema}.large"
        assert tuple(project.run_sql(rows, fetch="one")) == (3,)
        with monkeypatch.context() as wrong:
            wrong.setattr(References, "read_at", other)
            assert self.run(2, least=1, mvsink_verify=True)["large"]
        assert tuple(project.run_sql(rows, fetch="one")) == (2,)
        assert "verification found drift" in responses(project)["large"]["warnings"][0]

    def test_what_was_written_later_is_read_as_the_run_reads_it(self, project):
        now = 1_780_000_000_000
        self.run(40, *OVER_SOLD, "--full-refresh", least=2, mvsink_run_time=now)
        self.run(41, "--select", "sold", least=2, mvsink_run_time=now + 2000)
        self.run(41, "--select", "large", least=2, mvsink_run_time=now + 1000, mvsink_verify=True)
        response = responses(project)["large"]
        assert (response["verified"], "sold was written since" in response["rewritten"]) == (True, True)
        rows = project.run_sql(f"select max(n) from {project.test_schema}.large", fetch="one")
        assert tuple(rows) == (40,)
