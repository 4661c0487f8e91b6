"""What a run would do, and how later ones will be computed: of models that were never run, too."""

from __future__ import annotations

import re
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.mvsink.cli.commands.explain import explained, explained_lines
from dbt.adapters.mvsink.cli.dbt_runner import RunResult
from tests.functional.materialization.base import responses

pytestmark = pytest.mark.usefixtures("small_data")
ALWAYS = "{{ config(materialized='self_correcting_mv', incremental='always') }} "
AUTO = "{{ config(materialized='self_correcting_mv') }} "
SUMMED = "{{ config(materialized='self_correcting_mv', state='always') }} "
MODELS = {
    "base": AUTO + "select id, id % 3 k from {{ source('raw', 'files') }}",
    "followed": ALWAYS + "select id from {{ ref('base') }} where id > 1",
    "over_both": ALWAYS
    + "select b.id from {{ ref('base') }} b join {{ source('raw', 'files') }} f on b.id = f.id",
    "small": AUTO + "select id + 1 next from {{ ref('base') }}",
    "never": AUTO.replace(") }}", ", incremental='never') }}") + "select id from {{ ref('base') }}",
    "of_today": ALWAYS + "select id, cast({{ mv_now() }} as date) d from {{ ref('base') }}",
    "of_now": AUTO + "select id, {{ mv_now() }} at from {{ ref('base') }}",
    "random": AUTO + "select id, rand() r from {{ ref('base') }}",
    "totals": SUMMED + "select k, sum(id) s from {{ ref('base') }} group by k",
    "greatest": SUMMED + "select k, max(id) m from {{ ref('base') }} group by k",
    "limited": ALWAYS + "select id from {{ ref('base') }} limit 1",
}
LIMITED = "not incremental: line 1: LIMIT or OFFSET"
SMALL = "not incremental: its data is small"
LATER = {
    "base": "not incremental: what changes in spark_catalog.{schema}.files is not known",
    "followed": "incremental",
    "over_both": "incremental, unless spark_catalog.{schema}.files changes",
    "small": SMALL,
    "never": "not incremental: incremental: never",
    "of_today": "incremental, unless the value of mv_now() changes",
    "of_now": SMALL,
    "random": "not incremental: rand() differs from run to run, or from session to session",
    "totals": "incremental",
    "greatest": SMALL,
    "limited": f"they fail, {LIMITED}",
}  # fmt: skip


@pytest.mark.embedded("files on a disk are known to be unchanged only where Spark runs on the same machine")
class TestExplain:
    @pytest.fixture(autouse=True)
    def as_models_say(self, mode):
        if mode != "auto":
            pytest.skip("it is about what models choose")

    @pytest.fixture(scope="class")
    def place(self, tmp_path_factory):
        place = tmp_path_factory.mktemp("files")
        pq.write_table(pa.table({"id": pa.array((1, 2), pa.int64())}), place / "1.parquet")
        return place

    @pytest.fixture(scope="class")
    def models(self):
        raw = 'sources: [{name: raw, schema: "{{ target.schema }}", tables: [{name: files}]}]'
        return {"raw.yml": raw, **{f"{name}.sql": text for name, text in MODELS.items()}}

    inputs: ClassVar[dict[str, list[str]]] = {}
    seconds: ClassVar[dict[str, str]] = {}
    rules: ClassVar[dict[str, list[str]]] = {}
    costs: ClassVar[dict[str, list[str]]] = {}

    def explained(self, project, *names):
        """Of each model, what `mvsink explain` says in its first line."""
        flags = ["--vars", "{mvsink_read_only: true, mvsink_explain: true}"]
        run_dbt(["run", *(["--select", *names] if names else []), *flags])
        lines = {}
        for name, values in responses(project).items():
            ran = explained(RunResult(f"model.test.{name}", "success", "", "", "", values))
            line, *self.inputs[name] = explained_lines(ran, with_rules=False)
            costs = list(explained_lines(ran, with_rules=False, with_costs=True))
            self.costs[name] = [each for each in costs if each.endswith("<- decides")]
            self.rules[name] = list(explained_lines(ran, with_rules=True))[len(self.inputs[name]) + 1 :]
            line, _, self.seconds[name] = line.removeprefix(f"{name}: ").partition(" (last runs: ")
            lines[name] = line
        return lines

    def expected(self, project, name):
        return LATER[name].format(schema=project.test_schema)

    def test_what_is_said_before_the_first_run_and_once_nothing_changes(self, project, place):
        project.run_sql(
            f"create table {project.test_schema}.files (id bigint) using parquet location '{place}'"
        )
        run_dbt(["run", "--select", "base"])
        others = [name for name in MODELS if name != "base"]
        for name, line in self.explained(project, *others).items():
            assert line == f"evaluated: it has no contents yet; later runs: {self.expected(project, name)}"
        sums = "groups that a change touches; or its sums, to which what changed is added"
        assert self.rules["totals"] == [f"  group by k from base: {sums}"]
        assert self.rules["random"] == []

        run_dbt(["run"])
        [limited, greatest, today] = [
            responses(project)[name]["warnings"] for name in ("limited", "greatest", "of_today")
        ]
        cannot = "`incremental` is always, but runs after this one cannot be, and will fail: "
        assert limited == [cannot + "line 1: LIMIT or OFFSET"]
        dated = "the first run of each new value of its `mv_now()` cannot be, and will fail: "
        dated += "line 1: mv_now() outside WHERE, and its value changed"
        assert today == [f"`incremental` is always, but {dated}"]
        assert len(greatest) == 1 and "`state` is always, but it keeps no sums: " in greatest[0]
        explained = self.explained(project)
        assert explained["limited"].endswith(f"after a change: it fails, {LIMITED}")
        at_rest = {"base", "followed", "over_both", "small", "never", "totals", "greatest"}
        for name in at_rest:
            after = f"after a change: {self.expected(project, name)}"
            assert explained[name] == f"not evaluated: its inputs are unchanged; {after}"
        assert explained["random"].startswith("evaluated: rand() differs from run to run")

        pq.write_table(pa.table({"id": pa.array((3,), pa.int64())}), place / "2.parquet")
        run_dbt(["run", "--select", "base"])
        explained = self.explained(project)
        changed = f"{project.test_schema}.base changed"
        assert {name: explained[name] for name in ("followed", "totals", "small", "greatest")} == {
            "followed": f"incremental: {changed}",
            "totals": f"incremental: {changed}",
            "small": f"evaluated: {changed}; {SMALL}",
            "greatest": f"evaluated: {changed}; {SMALL}",
        }
        assert explained["limited"] == f"fails: {changed}; {LIMITED}, and `incremental` is always"
        [decides] = self.costs["small"]
        small = r"0\.0 MB, \d rows: small up to 32\.0 MB, 1,000,000 rows"
        assert re.fullmatch(rf"  data that it reads  +{small}  <- decides", decides)
        assert self.costs["followed"] == []  # `always` weighs nothing
        [moved] = self.inputs["followed"]
        assert re.fullmatch(rf" +{project.test_schema}\.base +shard +changed: 20\S+Z -> 20\S+Z", moved)
        assert re.fullmatch(r"evaluated \d+\.\d s\)", self.seconds["followed"])
        run_dbt(["run", "--exclude", "over_both", "limited", "of_today"])  # which fails after midnight
        assert {name: responses(project)[name]["mode"] for name in ("followed", "totals", "small", "greatest")} == {
            "followed": "incremental",
            "totals": "incremental",
            "small": "evaluated",
            "greatest": "evaluated",
        }  # fmt: skip
