"""A published view never loses its shard: not to redaction, and not silently when the shard is
gone.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from dbt.tests.util import relation_from_name, run_dbt, run_dbt_and_capture

from dbt.adapters.mvsink.shard import ShardClient
from tests.functional.materialization.base import MV, SOURCE, Base, configured
from tests.support.seldom import often

OPTIONS = "spark.sql.redaction.options.regex"
OLD = (
    "create or replace view {view} (id, name) comment 'mine' tblproperties ('team' = 'url \\'x\\' team', "
    "'mvsink.shard_uri' = '{uri}', 'mvsink.shard_id' = '{id}', 'mvsink.version' = '1', 'mvsink.files' = 'x') as select 1, 'a'"
)


class TestRedaction(Base):
    """`hourly` matches Spark's default patterns, which look for `url`; users set their own."""

    START = {"mv.sql": MV}

    @pytest.fixture(scope="class")
    def models(self):
        return {
            "source_rows.sql": SOURCE,
            "mv.sql": MV,
            "hourly.sql": MV,
            "reader.sql": MV.replace("source_rows", "hourly"),
        }

    def shards(self, project, shard_root):
        return {
            name: str(
                ShardClient().open_reader(f"{shard_root}/{project.test_schema}/{name}").state().shard_id
            )
            for name in ("mv", "hourly", "reader")
        }

    @pytest.mark.parametrize("pattern", often(["(?i)url", "(?s).*"], "(?s).*"))
    def test_every_run_finds_its_shard(self, project, spark, shard_root, pattern):
        spark.conf.set(OPTIONS, pattern)
        run_dbt(["run", "--full-refresh"])
        before = self.shards(project, shard_root)
        _, out = run_dbt_and_capture(["run"])
        assert out.count("+0 -0") == 3 and "republished" not in out
        assert self.shards(project, shard_root) == before
        assert not list(Path(project.project_root).rglob("*redacted*"))
        assert {path.name for path in (shard_root / project.test_schema).iterdir()} == set(before)

    def test_a_view_of_an_earlier_release_keeps_its_shard_and_what_others_put_on_it(
        self, project, spark, shard_root
    ):
        run_dbt(["run", "--full-refresh"])
        before, view = self.shards(project, shard_root), f"{project.test_schema}.hourly"
        uri = f"{shard_root}/{project.test_schema}/hourly"
        project.run_sql(OLD.format(view=view, uri=uri, id=before["hourly"]))
        spark.conf.set(OPTIONS, "(?s).*")
        run_dbt(["run", "--select", "hourly"])
        spark.conf.set(OPTIONS, "nothing at all")
        assert self.shards(project, shard_root) == before
        [[text]] = project.run_sql(f"show create table {view}", fetch="all")
        assert "'team' = 'url \\'x\\' team'" in text and "COMMENT 'mine'" in text and "/* mvsink {" in text
        assert len(self.rows(project, "hourly")) == 3


class TestShardGone(Base):
    START = {"mv.sql": configured(file_format="view")}
    KIND = "view"

    def gone(self, project, shard_root):
        """After a first run, the shard's directory, moved away."""
        run_dbt(["run", "--full-refresh"])
        place = shard_root / project.test_schema / "mv"
        away = place.with_name("away")
        shutil.rmtree(away, ignore_errors=True)
        place.rename(away)
        return place, away

    def test_it_is_an_error_and_nothing_is_made(self, project, shard_root):
        place, _ = self.gone(project, shard_root)
        for flags in ([], ["--empty"], ["--vars", "{mvsink_read_only: true}"]):
            _, out = run_dbt_and_capture(["run", *flags], expect_pass=False)
            assert (
                f"{project.test_schema}.mv: its {self.KIND}" in out
                and str(place) in out
                and "--full-refresh" in out
            )
            assert not place.exists()

    def test_back_in_its_place_it_is_found(self, project, shard_root):
        place, away = self.gone(project, shard_root)
        run_dbt(["run"], expect_pass=False)
        away.rename(place)
        _, out = run_dbt_and_capture(["run"])
        assert "+0 -0" in out

    def test_a_full_refresh_makes_a_new_one_and_says_so(self, project, shard_root):
        place, _ = self.gone(project, shard_root)
        _, out = run_dbt_and_capture(["run", "--full-refresh"])
        assert "its history is lost" in out and place.exists() and len(self.rows(project)) == 3

    def test_a_shard_that_was_moved_with_shard_root_is_found(self, project, shard_root):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project).shard_id
        place = shard_root / project.test_schema / "mv"
        project.run_sql(
            OLD.format(view=f"{project.test_schema}.mv", uri=f"{shard_root}/elsewhere/mv", id=before)
        )
        _, out = run_dbt_and_capture(["run"])
        assert (
            "was moved" in out and self.uri(project) == str(place) and self.state(project).shard_id == before
        )
        project.run_sql(
            OLD.format(view=f"{project.test_schema}.mv", uri=f"{shard_root}/elsewhere/mv", id="another")
        )
        run_dbt(["run"], expect_pass=False)


class TestTableGone(TestShardGone):
    """Where the catalog's entry is the table, it is lost with the shard, or alone."""

    START = {"mv.sql": configured(file_format="delta")}
    KIND = "table"

    def log(self, project):
        return Path(self.uri(project)) / "table" / "_delta_log"

    def test_a_shard_that_was_moved_with_shard_root_is_found(self, project, shard_root):
        run_dbt(["run", "--full-refresh"])
        before = self.state(project).shard_id
        place = shard_root / project.test_schema / "mv"
        elsewhere = shard_root / "elsewhere" / "mv"
        shutil.copytree(place, elsewhere)
        project.run_sql(f"drop table {project.test_schema}.mv")
        project.run_sql(f"create table {project.test_schema}.mv using delta location '{elsewhere}/table'")
        shutil.rmtree(elsewhere)
        _, out = run_dbt_and_capture(["run"])
        assert "was moved" in out and "published as a Delta table" in out
        assert self.uri(project) == str(place) and self.state(project).shard_id == before
        assert len(self.rows(project)) == 3

    def test_its_log_begins_again(self, project, shard_root):
        self.set_model(project, self.START["mv.sql"].replace("id, name", "name, id"))
        run_dbt(["run", "--full-refresh"])
        for arguments in ([], ["--full-refresh"]):
            shutil.rmtree(shard_root / project.test_schema / "mv" / "table" / "_delta_log")
            run_dbt(["run", *arguments])
            assert self.rows(project) == [("a", 1), ("b", 2), ("c", 3)]
        assert self.state(project).dropped is None

    @pytest.mark.parametrize("becomes", ["view", "table", "self_correcting_mv"])
    def test_what_replaces_it(self, project, shard_root, becomes):
        run_dbt(["run", "--full-refresh"])
        shutil.rmtree(shard_root / project.test_schema / "mv" / "table" / "_delta_log")
        self.set_model(project, MV.replace("self_correcting_mv'", f"{becomes}'"))
        if becomes == "self_correcting_mv":
            self.set_model(project, configured(file_format="view"))
        run_dbt(["run"])
        assert self.rows(project) == [(1, "a"), (2, "b"), (3, "c")]

    def test_a_drop_that_was_killed_before_it_dropped_the_table(self, project):
        run_dbt(["run", "--full-refresh"])
        uri = self.uri(project)
        relation = relation_from_name(project.adapter, "mv")
        with project.adapter.connection_named("drop"):
            project.adapter.mv_mark_shard_dropped("mv", uri)
        run_dbt(["run"])
        assert self.rows(project) == [(1, "a"), (2, "b"), (3, "c")]
        with project.adapter.connection_named("drop"):
            project.adapter.mv_mark_shard_dropped("mv", uri)
            project.adapter.drop_relation(relation.incorporate(type="table"))
        assert project.run_sql(f"show tables in {project.test_schema} like 'mv'", fetch="all") == []
