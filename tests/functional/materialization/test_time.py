"""One logical time across models: what references are read as of, what is kept for that, and
reading the past in any model.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dbt.tests.util import run_dbt_and_capture, write_file

from dbt.adapters.mvsink.shard import CompactionPlan, ShardClient, WriteHandle, compact_with_pyarrow
from tests.functional.materialization.base import MV, SOURCE, Base, configured

T = 1_795_168_800_000  # 2026-11-20T10:00:00Z
MINUTE = 60_000
AT = "2026-11-20T10:0{}:00Z"
OF_MV = "{{ config(materialized='self_correcting_mv') }} select id, name from {{ ref('mv') }}"
MORE = SOURCE.replace("(1, 'a')", "(1, 'a'), (4, 'd')")


def past(time, of="mv"):
    return f"{{{{ mv_as_of(ref('{of}'), {time!r}) }}}}"


def updates(lower, upper, **shape):
    more = "".join(f", {name}={value!r}" for name, value in shape.items())
    return f"{{{{ mv_updates(ref('mv'), {lower!r}, {upper!r}{more}) }}}}"


def at(minute, *args, expect_pass=True):
    """dbt so many minutes after 10:00; what it printed."""
    command, *more = args or ("run",)
    variables = json.dumps({"mvsink_run_time": T + minute * MINUTE})
    return run_dbt_and_capture([command, *more, "--vars", variables], expect_pass=expect_pass)[1]


class TimeBase(Base):
    START = {"mv.sql": configured(retain_history="1 hour"), "top.sql": OF_MV}

    @pytest.fixture(scope="class")
    def models(self):
        return {"source_rows.sql": SOURCE, **self.START}

    @pytest.fixture(autouse=True)
    def dropped(self, fresh, project):
        """Each test begins with these files and without relations."""
        for name, text in self.START.items():
            write_file(text, project.project_root, "models", name)
        yield
        project.run_sql(f"drop schema {project.test_schema} cascade")
        project.run_sql(f"create schema {project.test_schema}")
        for path in Path(project.project_root, "models").glob("*.sql"):
            path.unlink()

    @pytest.fixture(autouse=True)
    def places(self, project, dbt_profile_data):
        """Each test's shards are its own: a view dropped by hand leaves the shard where it was."""
        schema = Path(dbt_profile_data["test"]["outputs"]["default"]["shard_root"], project.test_schema)
        yield
        if schema.exists():
            schema.rename(schema.with_name(f"{project.test_schema}-{len(list(schema.parent.iterdir()))}"))

    def model(self, project, name, text):
        write_file(text, project.project_root, "models", f"{name}.sql")

    def ran(self, project, name):
        return Path(project.project_root, f"target/run/test/models/{name}.sql").read_text()

    def shard(self, project, name):
        with ShardClient().open_reader(self.uri(project, name)) as reader:
            return reader.state()

    def note(self, project, name):
        with ShardClient().open_reader(self.uri(project, name)) as reader:
            return [c.note for c in reader.history() if c.kind == "append"][-1]


class TestReferences(TimeBase):
    def test_a_reference_is_read_as_of_the_run_whatever_was_written_since(self, project):
        at(0, "run", "--select", "source_rows", "mv")
        self.set_source(project, MORE)
        at(4, "run", "--select", "source_rows", "mv")
        out = at(2, "run", "--select", "top")
        assert f"+3 -0 at {AT.format(2)}" in out and "as of" not in out
        assert len(self.rows(project, "mv")) == 4 and len(self.rows(project, "top")) == 3
        assert "parquet.`" in self.ran(project, "top") and f"{project.test_schema}.mv" not in self.ran(
            project, "top"
        )
        assert self.note(project, "top").read.times == {f"{project.test_schema}.mv": T + 2 * MINUTE}
        assert f"+1 -0 at {AT.format(4)}" in at(4, "run", "--select", "top")

    def test_what_a_dbt_view_reads_is_read_as_of_the_run_too(self, project):
        view = "{{ config(materialized='view') }} with source as (select * from {{ ref('mv') }}) select * from source -- all"
        self.model(project, "above", view)
        self.model(
            project,
            "between",
            view.replace("ref('mv')", "ref('above')").replace("*", "id, upper(name) name", 1),
        )
        self.model(project, "top", OF_MV.replace("ref('mv')", "ref('between')"))
        at(0, "run", "--exclude", "top")
        self.set_source(project, MORE)
        at(4, "run", "--select", "source_rows", "mv")
        assert f"+3 -0 at {AT.format(2)}" in at(2, "run", "--select", "top")
        assert self.note(project, "top").read.times == {f"{project.test_schema}.mv": T + 2 * MINUTE}
        assert f"+1 -0 at {AT.format(4)}" in at(4, "run", "--select", "top")
        assert self.rows(project, "top") == self.rows(project, "between")

    @pytest.mark.seldom
    @pytest.mark.usefixtures("manifest_json")
    def test_a_deferred_shard_and_one_of_another_project_are_read_as_of_the_run_too(self, project):
        prod = f"{project.test_schema}_prod"
        self.set_model(project, configured(retain_history="1 hour", schema="prod"))
        at(0, "run", "--select", "source_rows", "mv")
        self.set_source(project, MORE)
        at(4, "run", "--select", "source_rows", "mv")
        root = Path(project.project_root)
        (root / "state").mkdir()
        (root / "state" / "manifest.json").write_text((root / "target" / "manifest.json").read_text())
        uri = dict(map(tuple, project.run_sql(f"show tblproperties {prod}.mv", fetch="all")))[
            "mvsink.shard_uri"
        ]
        with WriteHandle.from_read(ShardClient().open_reader(uri)) as handle:
            handle.set_properties(
                {"owner": json.dumps({"project": "other", "target": "prod", "unique_id": "model.other.mv"})}
            )
            self.set_model(project, configured(schema="not_there"))
            write_file(
                f"sources: [{{name: other, schema: {prod}, tables: [{{name: mv}}]}}]",
                root,
                "models",
                "sources.yml",
            )
            scheduled = OF_MV.replace("_mv')", "_mv', refresh='every 1 hour')")
            self.model(project, "foreign", scheduled.replace("ref('mv')", "source('other', 'mv')"))
            try:
                out = at(2, "run", "--select", "top", "foreign", "--defer", "--state", "state")
                assert out.count(f"+3 -0 at {AT.format(2)}") == 2 and "as of" not in out
                for name in ("top", "foreign"):
                    assert self.note(project, name).read.times == {f"{prod}.mv": T + 2 * MINUTE}
                    assert len(self.rows(project, name)) == 3
                assert handle.state().holds == {}, "another's shard is not held"
            finally:
                (root / "models" / "sources.yml").unlink()
                project.run_sql(f"drop schema {prod} cascade")

    def test_one_that_has_not_passed_the_run_is_read_at_its_newest_and_the_line_says_so(self, project):
        at(0)
        out = at(3, "run", "--select", "top")
        assert f"+0 -0 at {AT.format(3)} (inputs unchanged); mv as of {AT.format(0)}" in out
        assert self.last(project, "top")["references"] == {f"{project.test_schema}.mv": T}

    @pytest.mark.seldom
    def test_one_that_was_never_refreshed_is_an_error_that_names_it(self, project):
        self.set_model(project, configured(refresh="at 2026-11-20 10:05"))
        out = at(1, expect_pass=False)
        assert f".mv: not refreshed yet; first refresh at {AT.format(5)}" in out and ".top: " in out
        self.model(project, "top", OF_MV.replace("_mv')", "_mv', refresh='at 2026-11-20 10:07')"))
        # it need not be read yet
        assert f"not refreshed yet; first refresh at {AT.format(7)}" in at(2)
        at(2, "run", "--empty")

    @pytest.mark.seldom
    def test_empty_and_sampled_references_and_ephemeral_models(self, project):
        self.model(project, "between", "{{ config(materialized='ephemeral') }} select * from {{ ref('mv') }}")
        self.model(project, "top", OF_MV.replace("ref('mv')", "ref('between')"))
        at(0)
        assert "parquet.`" in self.ran(project, "top") and f" {project.test_schema}.mv" not in self.ran(
            project, "top"
        )
        assert "empty: checked, nothing written" in at(1, "run", "--empty", "--select", "top")
        self.set_source(project, "select 1 as id, 'a' as name, timestamp'2020-01-01' as at")
        for name, read in (("mv", "source_rows"), ("top", "mv")):
            self.model(
                project, name, OF_MV.replace("id, name", "id, at").replace("ref('mv')", f"ref('{read}')")
            )
        listed = ", ".join(
            f"{{name: {name}, config: {{event_time: at}}}}" for name in ("source_rows", "mv", "top")
        )
        write_file(f"models: [{listed}]", project.project_root, "models", "schema.yml")
        try:
            at(2, "run", "--full-refresh")
            self.model(project, "other", OF_MV.replace("id, name", "id"))
            at(2, "run", "--select", "other", "--sample", "1 day")
        finally:
            Path(project.project_root, "models", "schema.yml").unlink()
        assert "where at >= '" in self.ran(project, "other") and "parquet.`" in self.ran(project, "other")
        assert self.rows(project, "other") == [] and len(self.rows(project, "top")) == 1

    @pytest.mark.seldom
    def test_a_scheduled_view_holds_what_its_next_refresh_will_read(self, project):
        self.set_model(project, configured(retain_history="1 second"))
        self.model(project, "top", OF_MV.replace("_mv')", "_mv', refresh='every 1 hour')"))
        at(0)
        holder = str(self.shard(project, "top").shard_id)
        assert self.shard(project, "mv").holds == {holder: T + 60 * MINUTE}
        self.set_source(project, MORE)
        at(61, "run", "--select", "source_rows", "mv")  # before the view comes to refresh
        assert self.shard(project, "mv").since.as_option() == T + 60 * MINUTE
        out = at(62, "run", "--select", "top")
        assert "+0 -0 at 2026-11-20T11:00:00Z" in out and "as of" not in out
        assert len(self.rows(project, "top")) == 3  # as of 11:00 there were no more
        assert self.shard(project, "mv").holds == {holder: T + 120 * MINUTE}
        self.model(project, "top", OF_MV)
        at(121, "run", "--select", "top")
        assert self.shard(project, "mv").holds == {}

    @pytest.mark.seldom
    def test_a_view_that_is_dropped_or_reads_something_else_lets_go(self, project):
        scheduled = OF_MV.replace("_mv')", "_mv', refresh='every 1 hour')")
        self.model(project, "top", scheduled)
        self.model(project, "other", scheduled)
        at(0)
        assert len(self.shard(project, "mv").holds) == 2
        self.model(project, "other", scheduled.replace("ref('mv')", "ref('source_rows')"))
        self.model(project, "top", OF_MV.replace("self_correcting_mv", "table"))
        at(1)
        assert self.shard(project, "mv").holds == {}

    @pytest.mark.not_over_thrift("statements of a Thrift server do not load the classes of Delta's jar")
    def test_a_table_with_versions_is_read_at_one_version_by_the_whole_run(self, project):
        schema = project.test_schema
        project.run_sql(f"create table {schema}.raw using delta as select 1 as id, 'a' as name")
        write_file(
            f"sources: [{{name: s, schema: {schema}, tables: [{{name: raw}}]}}]",
            project.project_root,
            "models",
            "sources.yml",
        )
        of_raw = MV.replace("ref('source_rows')", "source('s', 'raw')")
        self.set_model(project, of_raw)
        hook = f"insert into {schema}.raw select 2, 'b'"
        self.model(
            project, "top", of_raw.replace("_mv')", f'_mv\', pre_hook="{hook}")') + " -- {{ ref('mv') }}"
        )
        try:
            at(0, "run", "--select", "mv", "top")
            assert "version as of 0" in self.ran(project, "mv") and "version as of 0" in self.ran(
                project, "top"
            )
            assert len(self.rows(project, "mv")) == len(self.rows(project, "top")) == 1
            assert (
                self.note(project, "mv").read.versions
                == self.note(project, "top").read.versions
                == {f"{schema}.raw": 0}
            )
            at(1, "run", "--select", "mv")
            assert len(self.rows(project, "mv")) == 2
        finally:
            Path(project.project_root, "models", "sources.yml").unlink()
            project.run_sql(f"drop table {schema}.raw")


@pytest.mark.seldom
class TestOvertaken(TimeBase):
    OF = "{{ config(materialized='self_correcting_mv') }} "
    START = {
        "mv.sql": configured(retain_history="1 hour"),
        "total.sql": OF + "select count(*) as n from {{ ref('mv') }}",
        "both.sql": OF
        + "select (select count(*) from {{ ref('mv') }}) as rows, n as total from {{ ref('total') }}",
        "top.sql": OF + "select * from {{ ref('both') }}",
    }

    def test_what_would_mix_two_runs_is_left_to_the_later_one_and_so_is_all_that_reads_it(self, project):
        """The run of 10:02 is run in two parts, as if it were slow between; the one of 10:03
        supersedes it at `total`.
        """
        at(0)
        self.set_source(project, MORE)
        at(2, "run", "--select", "source_rows", "mv")
        self.set_source(project, MORE.replace("(2, 'b')", "(2, 'b'), (5, 'e')"))
        at(3, "run", "--select", "source_rows", "mv", "total")
        line = f"superseded: total was written by a later run (as of {AT.format(3)}), which passed over this run's time; left to the"
        before = self.shard(project, "both").version
        self.model(project, "new", self.START["both.sql"])
        out = at(2, "run", "--select", "total", "both", "top", "new")
        assert all(each in out for each in (line, f"not refreshed yet; {line}"))
        assert {self.last(project, name)["overtaken"] for name in ("both", "top", "new")} == {"total"}
        assert self.shard(project, "both").version == before and self.rows(project, "both") == [(3, 3)]
        out = at(3, "run", "--select", "both", "top", "new")
        assert (
            self.rows(project, "both") == self.rows(project, "top") == self.rows(project, "new") == [(5, 5)]
        )
        assert "superseded" not in out
        self.model(project, "new", self.OF + "select * from {{ ref('total') }}")
        # reads only the past
        assert f"+1 -0 at {AT.format(2)}" in at(2, "run", "--select", "new", "--full-refresh")


class TestReadingThePast(TimeBase):
    def show(self, minute, query):
        return at(minute, "show", "--output", "json", "--limit", "50", "--inline", query)

    def refused(self, minute, query):
        with pytest.raises(Exception, match="mv_") as error:
            self.show(minute, query)
        return " ".join(str(error.value).split())

    def test_in_a_table_in_a_maintained_view_in_a_test_and_in_show(self, project):
        write_file(MORE, project.project_root, "models", "source_rows.sql")
        at(0, "run", "--select", "source_rows", "mv")
        self.set_source(project, SOURCE.replace("(2, 'b')", "(2, 'x')"))
        at(2, "run", "--select", "source_rows", "mv")
        self.model(
            project,
            "old",
            "select old.*, n.name as now from " + past(T) + " as old left join {{ ref('mv') }} n using (id)",
        )
        self.model(
            project,
            "changes",
            f"select id, name, _mv_time - {T} as at, _mv_diff as n from {updates(T + 1, '2026-11-20 10:02:00.001')}",
        )
        images = updates(T + 1, T + 2 * MINUTE + 1, key=["ID"], shape="cdf")
        self.model(
            project, "images", f"select id, name, _change_type as kind, _commit_timestamp as at from {images}"
        )
        old = past("2026-11-20T10:01:00Z")
        self.model(
            project,
            "top",
            OF_MV.replace(
                "{{ ref('mv') }}", f"(select * from {old} union all select * from {{{{ ref('mv') }}}})"
            ),
        )
        write_file(f"select 1 from {old} where id > 4", project.project_root, "tests", "never_more.sql")
        at(2, "build", "--select", "old", "changes", "images", "top", "never_more")
        assert self.rows(project, "old") == [(1, "a", "a"), (2, "b", "x"), (3, "c", "c"), (4, "d", None)]
        wanted = [(2, "b", 2 * MINUTE, -1), (2, "x", 2 * MINUTE, 1), (4, "d", 2 * MINUTE, -1)]
        assert self.rows(project, "changes") == wanted
        assert [row[:3] for row in self.rows(project, "images")] == [
            (2, "b", "update_preimage"),
            (2, "x", "update_postimage"),
            (4, "d", "delete"),
        ]
        assert {row[3].isoformat()[:16] for row in self.rows(project, "images")} == {"2026-11-20T10:02"}
        assert len(self.rows(project, "top")) == 7
        shown = self.show(3, f"select max(id) as most from {old}")
        assert '"most": 4' in shown
        assert '"n": 3' in self.show(3, f"select count(*) as n from {updates(T + 1, T + 2 * MINUTE + 1)}")
        self.model(project, "top", OF_MV.replace("{{ ref('mv') }}", f"{old} where id < 3"))
        assert "+0 -5" in at(4, "run", "--select", "top")
        assert "empty: checked, nothing written" in at(4, "run", "--select", "top", "--empty")

    def test_what_cannot_be_read_is_refused_with_both_bounds_and_since_trails_by_retain_history(
        self, project
    ):
        self.set_model(project, configured(retain_history="1 minute"))
        at(0, "run", "--select", "source_rows", "mv")
        bounds = f"the readable times are [{AT.format(0)} ({T}), 2026-11-20T10:00:00.001Z ({T + 1}))"
        cases = {
            past(T - 1): f"as of 2026-11-20T09:59:59.999Z ({T - 1}): {bounds}",
            past(T + 1): f"as of 2026-11-20T10:00:00.001Z ({T + 1}): {bounds}",
            updates(T, T + 1): bounds,
            updates(
                T, T + 1, shape="delta"
            ): "Got: 'delta' Expected: 'updates' (columns, _mv_time, _mv_diff) or 'cdf'",
            updates(
                T, T + 1, key=["id"]
            ): "invalid argument `key` Got: ['id'] Expected: no key, or shape='cdf'",
            updates(T + 1, T + 1, key="no", shape="cdf"): "Got: 'no' Expected: one or several of id, name",
            past("yesterday"): "Got: 'yesterday'",
            past(1439): "Got: 1439",
            past(T, of="source_rows"): "only a shard has a history",
        }
        for query, message in cases.items():
            assert message in self.refused(0, f"select * from {query}")
        at(5, "run", "--select", "mv")
        assert self.shard(project, "mv").since.as_option() == T + 4 * MINUTE + 1
        wanted = f"the readable times are [2026-11-20T10:04:00.001Z ({T + 4 * MINUTE + 1}), "
        assert wanted in self.refused(5, "select * from " + past(T + MINUTE))

    @pytest.mark.seldom
    def test_compaction_makes_no_new_definition(self, project):
        self.model(
            project,
            "top",
            OF_MV.replace("_mv')", "_mv', refresh='every 1 hour')").replace("{{ ref('mv') }}", past(T)),
        )
        at(0, "run", "--select", "source_rows", "mv")
        at(0, "run", "--select", "top")
        before = self.ran(project, "top")
        with self.writer(project) as handle:
            state = handle.state()
            assert compact_with_pyarrow(handle, CompactionPlan(state.files, state.since))
        assert "up to date until" in at(2, "run", "--select", "top")
        assert self.ran(project, "top") != before and self.shard(project, "top").generation == 0
