"""Tables with many columns, long names and large structs: stored whole and published, or refused
before anything is written.
"""

from __future__ import annotations

import os

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture

from tests.functional.materialization.base import SOURCE, Base, configured

FIELDS = ", ".join(f"'field_{number}', id + {number}" for number in range(40))
NAMES = [f"long_name_as_generators_make_{number}" for number in range(150)]


def model(names):
    listed = ", ".join(f"id + {number} as {name}" for number, name in enumerate(names))
    return configured().replace("id, name", f"id, named_struct({FIELDS}) wide, {listed}")


class TestWide(Base):
    START = {"mv.sql": model(NAMES)}

    @pytest.fixture(scope="class")
    def models(self):
        return {"source_rows.sql": SOURCE, "mv.sql": self.START["mv.sql"]}

    def expected(self, ids):
        return [
            (n, tuple(n + number for number in range(40)), *(n + number for number in range(150)))
            for n in ids
        ]

    @pytest.mark.not_over_thrift("structs arrive as texts")
    def test_many_columns_and_forty_fields_are_kept_and_published(self, project):
        run_dbt(["run", "--full-refresh"])
        for ids in ([1, 4], [1, 4, 5], [4, 5]):
            self.set_source(
                project, f"select * from values {', '.join(f'({n}, 1)' for n in ids)} as t(id, name)"
            )
            run_dbt(["run"])
            assert [(row[0], tuple(row[1]), *row[2:]) for row in self.rows(project)] == self.expected(ids)
        names = [row[0] for row in project.run_sql(f"show columns in {project.test_schema}.mv", fetch="all")]
        assert names == ["id", "wide", *NAMES]

    @pytest.mark.embedded("what another metastore can store is not known")
    def test_what_the_metastore_cannot_keep_is_refused_before_anything_is_written(self, project, shard_root):
        self.set_model(
            project, model([f"{name}{'x' * 60}" for name in NAMES]).replace("_mv'", "_mv', alias='too_wide'")
        )
        _, out = run_dbt_and_capture(["run", "--select", "mv"], expect_pass=False)
        assert (
            f"{project.test_schema}.too_wide: 152 columns" in out
            and "the embedded metastore stores at most 32700" in out
        )
        assert "too_wide" not in os.listdir(shard_root / project.test_schema)
