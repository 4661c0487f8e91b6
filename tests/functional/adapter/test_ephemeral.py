"""Ephemeral models: what they compile to."""

from __future__ import annotations

import re
from pathlib import Path

from dbt.tests.adapter.ephemeral.test_ephemeral import (
    BaseEphemeralErrorHandling,
    BaseEphemeralMulti,
    BaseEphemeralNested,
)
from dbt.tests.util import check_relations_equal, run_dbt


def compiled(project, model):
    """What ran for a model, without blanks and the schema's name."""
    text = (Path(project.project_root) / "target" / "run" / "test" / "models" / f"{model}.sql").read_text()
    return re.sub(r"\s+", "", text.replace(project.test_schema, "S"))


class TestEphemeralMulti(BaseEphemeralMulti):
    def test_ephemeral_multi(self, project):
        """As the base, but the expected SQL is Spark's: `create or replace view` of a name without
        a database.
        """
        run_dbt(["seed"])
        assert len(run_dbt(["run"])) == 3
        for model in ("dependent", "double_dependent", "super_dependent"):
            check_relations_equal(project.adapter, ["seed", model])
        expected = """
            create or replace view S.double_dependent as
            with __dbt__cte__base as (select * from S.seed),
            __dbt__cte__base_copy as (select * from __dbt__cte__base)
            -- base_copy just pulls from base. Make sure the listed
            -- graph of CTEs all share the same dbt_cte__base cte
            select * from __dbt__cte__base where gender = 'Male'
            union all
            select * from __dbt__cte__base_copy where gender = 'Female'
        """
        assert compiled(project, "double_dependent") == re.sub(r"\s+", "", expected)


class TestEphemeralNested(BaseEphemeralNested):
    def test_ephemeral_nested(self, project):
        """As the base, but the expected SQL is Spark's: `create or replace view` of a name without
        a database.
        """
        assert len(run_dbt(["run"])) == 2
        expected = """
            create or replace view S.root_view as
            with __dbt__cte__ephemeral_level_two as (select * from S.source_table),
            __dbt__cte__ephemeral as (select * from __dbt__cte__ephemeral_level_two)
            select * from __dbt__cte__ephemeral
        """
        assert compiled(project, "root_view") == re.sub(r"\s+", "", expected)


class TestEphemeralErrorHandling(BaseEphemeralErrorHandling):
    pass
