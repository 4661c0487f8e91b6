"""A `continual_task` through dbt: what each run says and does. What the statements mean is tested
below dbt (test_first and others).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.shard import ShardClient
from tests.functional.materialization.base import Base

pytestmark = pytest.mark.usefixtures("small_data")

EVENTS = "{{{{ config(materialized='self_correcting_mv') }}}} select * from values {} as t(key, val)"
READ_ONLY = "{mvsink_read_only: true}"
FIRST = "(1, 10), (1, 11), (2, 20)"
UPSERT = """{{ config(materialized='continual_task') }}
on input {{ ref('events') }} as (
  delete from {{ this }} where key in (select key from {{ ref('events') }});
  insert into {{ this }} select key, max(val) as val from {{ ref('events') }} group by key
)"""


class Tasks(Base):
    """`events` is rewritten before each test; so is every file of START."""

    START = {}

    @pytest.fixture(scope="class")
    def models(self):
        return {"events.sql": EVENTS.format(FIRST), **self.START}

    def set(self, project, name, text):
        write_file(text, project.project_root, "models", f"{name}.sql")

    def set_events(self, project, values):
        self.set(project, "events", EVENTS.format(values))

    def shard(self, project, name):
        with ShardClient().open_reader(self.uri(project, name)) as reader:
            return reader.state()

    def says(self, project, name, *arguments):
        """The line of one model in a run of it alone."""
        run_dbt_and_capture(["run", "--select", name, *arguments])
        return self.last(project, name)["_message"]


class TestInputs(Tasks):
    """A task over each kind of input, one reading another, and an ordinary view reading a task."""

    START = {
        "plain.sql": "{{ config(materialized='table') }} select id, 'a' as name from range(3)",
        "upsert.sql": UPSERT,
        "of_table.sql": "{{ config(materialized='continual_task') }} from transform {{ ref('plain') }} using ("
        "select id, case when id > 0 then name end as name, (select count(*) from {{ mv_contents(ref('plain')) }}) as of_all "
        "from {{ ref('plain') }})",
        "of_seed.sql": "{{ config(materialized='continual_task') }} from retain {{ ref('prices') }} while (price > 1)",
        "of_task.sql": "{{ config(materialized='continual_task') }} on input {{ ref('upsert') }} as ("
        "insert into {{ this }} select key, val, 'came' as what from {{ ref('upsert') }};"
        "insert into {{ this }} select key, val, 'went' from {{ mv_deletes(ref('upsert')) }})",
        "reader.sql": "select sum(val) as total from {{ ref('upsert') }}",
    }

    @pytest.fixture(scope="class")
    def seeds(self):
        return {"prices.csv": "item,price\na,1\nb,2\n"}

    def test_changes_of_every_kind_of_input_arrive_once(self, project):
        run_dbt(["build"])
        assert self.rows(project, "upsert") == [(1, 11), (2, 20)]
        assert self.rows(project, "of_table") == [(0, None, 3), (1, "a", 3), (2, "a", 3)]
        assert self.rows(project, "of_seed") == [("b", 2)]
        assert self.rows(project, "of_task") == [(1, 11, "came"), (2, 20, "came")]
        assert self.rows(project, "reader") == [(31,)]
        response = self.last(project, "upsert")
        assert (response["rows_inserted"], response["rows_deleted"], response["kind"]) == (2, 0, "append")
        assert response["_message"].startswith("+2 -0 at 20")

        self.set_events(project, "(1, 10), (1, 11), (2, 20), (2, 25)")
        self.set(
            project,
            "plain",
            "{{ config(materialized='incremental') }} select id, 'b' as name from range(3, 4)",
        )
        run_dbt(["run"])
        assert self.rows(project, "upsert") == [(1, 11), (2, 25)]
        assert self.rows(project, "of_table") == [(0, None, 3), (1, "a", 3), (2, "a", 3), (3, "b", 4)]
        assert self.rows(project, "of_task") == [
            (1, 11, "came"),
            (2, 20, "came"),
            (2, 20, "went"),
            (2, 25, "came"),
        ]
        assert self.last(project, "upsert")["_message"].startswith("+1 -1 at 20")

        run_dbt(["build"])
        for name in ("upsert", "of_seed", "of_task"):
            assert "+0 -0 at 20" in self.last(project, name)["_message"], name
        # the incremental model has appended again
        assert "+1 -0 at 20" in self.last(project, "of_table")["_message"]


class TestFlags(Tasks):
    """What flags, a changed definition and a reset do to a task over a shard, and to one over a
    table.
    """

    START = {
        "plain.sql": "{{ config(materialized='table') }} select id from range(3)",
        "upsert.sql": UPSERT,
        "of_table.sql": "{{ config(materialized='continual_task', full_refresh=false) }} "
        "from transform {{ ref('plain') }} using (select id from {{ ref('plain') }})",
    }

    def test_in_order(self, project):
        shards = Path(project.adapter.config.credentials.shards) / project.test_schema
        with pytest.raises(DbtRuntimeError, match="upsert: not run yet"):
            run_dbt(["show", "--select", "upsert"])

        run_dbt(["run", "--select", "events", "plain"])
        run_dbt(["run", "--select", "upsert", "of_table", "--vars", READ_ONLY])
        assert self.last(project, "of_table")["_message"] == "read-only: would process its input"
        assert not (shards / "of_table").exists() and not (shards / "upsert").exists(), (
            "nothing is created, nothing bound"
        )

        run_dbt(["run", "--select", "upsert", "of_table", "--empty"])
        assert self.last(project, "upsert")["_message"] == "empty: checked, nothing written"
        for name in ("upsert", "of_table"):
            state = self.shard(project, name)
            assert (state.creation, state.upper.as_option(), state.files) == (None, 0, ()), (
                f"{name}: no upper, no progress"
            )
        assert not (shards / "of_table" / "_inputs").exists()

        run_dbt(["run"])
        assert self.rows(project, "upsert") == [(1, 11), (2, 20)]
        [shown] = run_dbt(["show", "--select", "upsert"])
        assert sorted(tuple(map(int, row)) for row in shown.agate_table.rows) == [(1, 11), (2, 20)]

        before = self.shard(project, "upsert").version
        self.set_events(project, "(1, 10), (1, 11), (2, 20), (3, 30)")
        run_dbt(["run", "--select", "events"])
        assert (
            self.says(project, "upsert", "--vars", READ_ONLY)
            == "read-only: would process 1 pending times of its input"
        )
        assert self.shard(project, "upsert").version == before

        self.set(
            project,
            "upsert",
            UPSERT.replace("_task'", "_task', on_configuration_change='fail'").replace("max(", "min("),
        )
        assert "query differs" in self.refusal(project, "upsert")
        self.set(project, "upsert", UPSERT.replace("as val", "as other"))
        assert "`val` is gone" in self.refusal(
            project, "upsert"
        ) and "mvsink_reset: [upsert]" in self.refusal(project, "upsert")

        self.set(project, "upsert", UPSERT.replace("max(val)", "max(val) + 1"))
        _, out = run_dbt_and_capture(["run", "--select", "upsert", "of_table", "--full-refresh"])
        assert "upsert: --full-refresh does not reset a task; what it wrote stays" in " ".join(out.split())
        assert self.rows(project, "upsert") == [(1, 11), (2, 20), (3, 31)]
        line = self.last(project, "upsert")["_message"]
        assert line.startswith("+1 -0 at 20") and line.endswith(
            "statements changed: they apply to times not yet processed"
        )

        generation = self.shard(project, "of_table").generation
        named = "{mvsink_reset: [upsert, of_table]}"
        _, out = run_dbt_and_capture(
            ["run", "--select", "upsert", "of_table", "--full-refresh", "--vars", named]
        )
        assert (
            "of_table: it is in mvsink_reset and stays as it is, because its full_refresh is false"
            in " ".join(out.split())
        )
        assert "; reset: its earlier output is discarded" in self.last(project, "upsert")["_message"]
        assert self.rows(project, "upsert") == [(1, 12), (2, 21), (3, 31)], (
            "the whole input is the first change again"
        )
        assert self.shard(project, "of_table").generation == generation, "full_refresh: false is never reset"
        _, out = run_dbt_and_capture(["run", "--select", "upsert", "--vars", named])
        assert "upsert: it is in mvsink_reset, which resets a task only with --full-refresh" in " ".join(
            out.split()
        )
        assert self.says(project, "upsert").startswith("+0 -0 at 20")

    def refusal(self, project, name):
        [result] = run_dbt(["run", "--select", name], expect_pass=False)
        return result.message


class TestViews(Tasks):
    """Views and ephemeral models as inputs and references; statements that dbt would cut in two."""

    START = {
        "plain.sql": "{{ config(materialized='table') }} select id as key, id * 10 as val from range(3)",
        "staged.sql": "with source as (select * from {{ ref('events') }}), renamed as (select key, val * 2 as twice from source)"
        " select * from renamed where twice > 20",
        "staged_table.sql": "select key, val, 'kept' as what from {{ ref('plain') }} where val > 0",
        "light.sql": "{{ config(materialized='ephemeral') }} select key, twice + 1 as odd from {{ ref('staged') }}",
        "names.sql": "{{ config(materialized='ephemeral') }} select 1 as key, 'one' as name",
        "of_view.sql": "{{ config(materialized='continual_task') }} from transform {{ ref('staged') }} using ("
        "select * from {{ ref('staged') }})",
        "of_table_view.sql": "{{ config(materialized='continual_task') }} from transform {{ ref('staged_table') }} using ("
        "select * from {{ ref('staged_table') }})",
        "cut.sql": """{{ config(materialized='continual_task') }}
on input {{ ref('light') }} as (
  insert into {{ this }} select e.key, case when n.name is null then 'none' else n.name end as name, odd
  from {{ ref('light') }} e left join {{ ref('names') }} n on n.key = e.key;
  update {{ this }} set name = case name when 'none' then 'no one' else name end;
  delete from {{ this }} where odd > 100
)""",
    }

    def test_changes_come_through(self, project):
        run_dbt(["run"])
        assert self.rows(project, "of_view") == [(1, 22), (2, 40)]
        assert self.rows(project, "of_table_view") == [(1, 10, "kept"), (2, 20, "kept")]
        assert self.rows(project, "cut") == [(1, "one", 23), (2, "no one", 41)]

        # 1 goes below the view's limit
        self.set_events(project, "(1, 1), (2, 20), (2, 60), (3, 30), (3, 31)")
        self.set(project, "plain", "{{ config(materialized='incremental') }} select 9L as key, 90L as val")
        run_dbt(["run"])
        assert self.last(project, "of_view")["rows_inserted"] == 3
        assert self.rows(project, "of_view") == [(1, 22), (2, 120), (2, 40), (3, 60), (3, 62)]
        assert self.rows(project, "of_table_view") == [(1, 10, "kept"), (2, 20, "kept"), (9, 90, "kept")]
        assert self.rows(project, "cut") == [
            (1, "one", 23),
            (2, "no one", 41),
            (3, "no one", 61),
            (3, "no one", 63),
        ]

    def test_a_text_that_spark_reads_otherwise_is_asked_once_and_refused(self, project, monkeypatch):
        run_dbt(["run", "--select", "+of_view"])
        shared = self.shard(project, "of_view").properties["times_shared"]
        asked = []

        def otherwise(engine, plain, carried, columns):
            asked.append(carried)
            return False

        monkeypatch.setattr("dbt.adapters.mvsink.materialization.task_witness.carries", otherwise)
        run_dbt(["run", "--select", "of_view"])  # known from the first run
        assert asked == [] and self.shard(project, "of_view").properties["times_shared"] == shared
        self.set(project, "staged", self.START["staged.sql"].replace("> 20", "> 21"))
        run_dbt(["run", "--select", "staged"])
        message = "Spark reads the query otherwise than this adapter, so its changes are not known"
        [refused] = run_dbt(["run", "--select", "of_view"], expect_pass=False)
        assert message in refused.message
        copy = COPY.replace("select *", "select key + 1 as key")
        self.set(project, "of_events", "{{ config(materialized='continual_task') }} " + copy)
        run_dbt(["run", "--select", "of_events"])  # its times run one by one
        assert "times_misread" in self.shard(project, "of_events").properties


def task(text, **configs):
    listed = "".join(f", {key}={value!r}" for key, value in configs.items())
    return f"{{{{ config(materialized='continual_task'{listed}) }}}}\n{text}"


COPY = "from transform {{ ref('events') }} using (select * from {{ ref('events') }})"
REFUSED = {  # model: its text, what the message says
    "has_input": (task(COPY, input="events"), ("`input`", "the SQL of a task says what drives it", "on input {{ ref('...') }} as ( statements )")),
    "has_form": (task(COPY, form="transform"), ("`form`", "from transform {{ ref('...') }} using ( query )")),
    "has_refresh": (task(COPY, refresh="every 1 hour"), ("`refresh`", "from retain {{ ref('...') }} while ( predicate )")),
    "always_reset": (task(COPY, full_refresh=True), ("`full_refresh`", "mvsink_reset: [always_reset]")),
    "is_a_query": (task("select * from {{ ref('events') }}"), ("a continual task is `on input",)),
    "of_itself": (task("on input {{ this }} as (insert into {{ this }} select 1 as one)"), ("its own output",)),
    "of_a_join": (
        task("from transform {{ ref('joined') }} using (select * from {{ ref('joined') }})"),
        ("a continual task cannot use a view as its input", "this one has a join: make it self_correcting_mv, or use",
         "`on input {{ ref('events') }} ...` or `on input {{ ref('plain') }} ...`"),
    ),
    "of_a_count": (
        task("from transform {{ ref('counted') }} using (select * from {{ ref('counted') }})"),
        ("this one has an aggregation", "`on input {{ ref('plain') }} ...`"),
    ),
    "of_chance": (task("from transform {{ ref('chance') }} using (select * from {{ ref('chance') }})"), ("has rand()",)),
    "misspelled": (task("on input {{ ref('events') }} as (insert into {{ this }} select ky from {{ ref('events') }})"),
                   ("statement 0:", "`ky`")),
    "typed": (task(COPY, column_types={"key": "int", "val": "boolean"}), ('column "val" is of type boolean but expression is of type int',)),
}  # fmt: skip


class TestRefusals(Tasks):
    START = {
        "plain.sql": "{{ config(materialized='table') }} select id from range(3)",
        "joined.sql": "select e.key from {{ ref('events') }} e join {{ ref('plain') }} p on p.id = e.key",
        "counted.sql": "{{ config(materialized='ephemeral') }} select count(*) as n from {{ ref('plain') }}",
        "chance.sql": "select * from {{ ref('plain') }} where rand() < 0.5",
        "contracted.sql": task(COPY, contract={"enforced": True}),
        "seen_once.sql": task(
            "on input {{ ref('events') }} as (insert into {{ this }} select key, min(val) as first from {{ ref('events') }} e "
            "where not exists (select 1 from {{ this }} seen where seen.key = e.key) group by key)",
            post_hook="create table {{ this.schema }}.hooked as select count(*) as n from {{ this }}",
        ),
        "nicknamed.sql": task(COPY, contract={"enforced": True}),
        "contracted.yml": "models: [{name: contracted, columns: [{name: val, data_type: string}, {name: key, data_type: bigint}]}, "
        "{name: nicknamed, columns: [{name: k, data_type: bigint}, {name: val, data_type: string}]}]",
        **{f"{name}.sql": text for name, (text, _) in REFUSED.items()},
    }

    def test_what_cannot_be_is_said_and_the_others_run(self, project):
        results = {result.node.name: result for result in run_dbt(["run"], expect_pass=False)}
        for name, (_, expected) in REFUSED.items():
            for part in (f".{name}: ", *expected):
                assert part in results[name].message, (name, results[name].message)
        # row g: dbt's table of differences
        assert re.search(r"\| k +\| +\| bigint +\| missing in definition", results["nicknamed"].message)
        failed = {name for name, result in results.items() if str(result.status) == "error"}
        assert failed == {*REFUSED, "nicknamed"}
        assert self.rows(project, "seen_once") == [(1, 10), (2, 20)], (
            "a statement may read the output that it defines"
        )
        assert self.rows(project, "hooked") == [(2,)]
        assert self.rows(project, "contracted") == [("10", 1), ("11", 1), ("20", 2)], (
            "row g: by the contract's names, in its order and types"
        )


class TestViewsOfShards(Tasks):
    """Row i: what a task reads through dbt's views is that of the time of the change, too."""

    START = {
        "rates.sql": EVENTS.format("(1, 100)"),
        "inner_view.sql": "{{ config(materialized='view') }} select key, val from {{ ref('rates') }}",
        "outer_view.sql": "{{ config(materialized='view') }} select key k, max(val) rate from {{ ref('inner_view') }} group by key",
        "odd_view.sql": "{{ config(materialized='view') }} select max(val) odd from {{ ref('rates') }} where rand() < 2",
        "priced.sql": task(
            "on input {{ ref('events') }} as (insert into {{ this }} select e.val, v.rate from {{ ref('events') }} e "
            "join {{ ref('outer_view') }} v on v.k = e.key)"
        ),
        "oddly.sql": task(
            "on input {{ ref('events') }} as (insert into {{ this }} select val, odd from {{ ref('events') }}, {{ ref('odd_view') }})"
        ),
    }

    def test_row_i_views_are_read_as_of_the_time(self, project):
        run_dbt(["run"])
        self.set_events(project, "(1, 10), (1, 11), (2, 20), (1, 12)")
        run_dbt(["run", "--select", "events"])
        self.set(project, "rates", EVENTS.format("(1, 200)"))
        run_dbt(["run", "--select", "rates"])
        _, output = run_dbt_and_capture(["run", "--select", "priced", "oddly"])
        assert self.rows(project, "priced") == [(10, 100), (11, 100), (12, 100)]
        printed = [line for line in output.splitlines() if "is read in its current state" in line]
        assert len(printed) == 1 and "oddly: the view" in printed[0] and "rand" in printed[0], output
        assert (12, 200) in self.rows(project, "oddly")
