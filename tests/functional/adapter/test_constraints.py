"""Contracts and constraints. dbt-spark builds a Delta table first and then adds `not null` and
`check` to it.
"""

from __future__ import annotations

import pytest
import yaml
from dbt.tests.adapter.constraints.test_constraints import (
    BaseConstraintQuotedColumn,
    BaseConstraintsRollback,
    BaseConstraintsRuntimeDdlEnforcement,
    BaseIncrementalConstraintsColumnsEqual,
    BaseIncrementalConstraintsRollback,
    BaseIncrementalConstraintsRuntimeDdlEnforcement,
    BaseIncrementalContractSqlHeader,
    BaseIncrementalForeignKeyConstraint,
    BaseModelConstraintsRuntimeEnforcement,
    BaseTableConstraintsColumnsEqual,
    BaseTableContractSqlHeader,
    BaseViewConstraintsColumnsEqual,
)

from tests.functional.adapter.spelling import Delta

SCHEMA = "the_schema"


class SparkProperties:
    @pytest.fixture(scope="class")
    def project_files(self, project_files, project_root):
        """Spark's names of types, its quotes, and only constraints that open-source Spark can add
        to a table.

        It refuses `set not null` on a column that is there; a check of the table says the same.
        """
        for path in (project_root / "models").listdir():
            if path.ext == ".yml":
                text = path.read().replace("data_type: text", "data_type: string").replace('"from"', "`from`")
                # the base fills it in, and YAML must be readable before
                text = text.replace("{schema}", SCHEMA)
                properties = yaml.safe_load(text)
                for model in properties["models"]:
                    constrain_by_check(model)
                path.write(yaml.safe_dump(properties).replace(SCHEMA, "{schema}"))


def constrain_by_check(model):
    """`not_null` of a column as a `check` of the table; dbt-spark ignores the other kinds of a
    column's constraints.
    """
    for column in model["columns"]:
        for constraint in column.pop("constraints", []):
            if constraint["type"] == "not_null":
                name = f"`{column['name']}`"
                check = {
                    "type": "check",
                    "name": f"{column['name']}_is_there",
                    "expression": f"{name} is not null",
                }
                model.setdefault("constraints", []).append(check)


class SparkTypes(SparkProperties):
    @pytest.fixture
    def string_type(self):
        return "string"

    @pytest.fixture
    def int_type(self):
        return "int"

    @pytest.fixture
    def data_types(self):
        """A value, its type in a contract, and the type in dbt's message: in Spark they are the
        same.
        """
        values = {
            "1": "int",
            "'1'": "string",
            "true": "boolean",
            "timestamp '2013-11-03 00:00:00'": "timestamp",
            "array('a', 'b')": "array<string>",
            "cast(1 as decimal(10, 2))": "decimal(10,2)",
        }
        return [[value, kind, kind] for value, kind in values.items()]


class TestTableConstraintsColumnsEqual(Delta, SparkTypes, BaseTableConstraintsColumnsEqual):
    pass


class TestViewConstraintsColumnsEqual(SparkTypes, BaseViewConstraintsColumnsEqual):
    pass


class TestIncrementalConstraintsColumnsEqual(Delta, SparkTypes, BaseIncrementalConstraintsColumnsEqual):
    pass


CREATED = """
create or replace table <model_identifier> using delta as
select {columns} from (
    {dependency} select {values}
) as model_subq
"""
IN_ORDER = "id, color, date_day"
VALUES = "'blue' as color, 1 as id, '2019-01-01' as date_day"
DEPENDENCY = "-- depends_on: <foreign_key_model_identifier>"


class SparkDdl(Delta, SparkProperties):
    @pytest.fixture(scope="class")
    def expected_sql(self):
        """The statement that builds the table; the constraints are added by later statements."""
        return CREATED.format(columns=IN_ORDER, values=VALUES, dependency=DEPENDENCY)


class TestTableConstraintsRuntimeDdlEnforcement(SparkDdl, BaseConstraintsRuntimeDdlEnforcement):
    pass


class TestIncrementalConstraintsRuntimeDdlEnforcement(
    SparkDdl, BaseIncrementalConstraintsRuntimeDdlEnforcement
):
    pass


class TestModelConstraintsRuntimeEnforcement(SparkDdl, BaseModelConstraintsRuntimeEnforcement):
    pass


class TestConstraintQuotedColumn(SparkDdl, BaseConstraintQuotedColumn):
    @pytest.fixture(scope="class")
    def expected_sql(self):
        return CREATED.format(
            columns="id, `from`, date_day",
            values="'blue' as `from`, 1 as id, '2019-01-01' as date_day",
            dependency="",
        )


class NotRolledBack(Delta, SparkProperties):
    """dbt-spark replaces the table and then constrains it: a violation fails the model, and the new
    rows are there.
    """

    @pytest.fixture(scope="class")
    def expected_color(self):
        return "red"

    @pytest.fixture(scope="class")
    def expected_error_messages(self):
        return ["DELTA_NEW_CHECK_CONSTRAINT_VIOLATION", "id"]


class TestTableConstraintsRollback(NotRolledBack, BaseConstraintsRollback):
    pass


class TestIncrementalConstraintsRollback(NotRolledBack, BaseIncrementalConstraintsRollback):
    @pytest.fixture(scope="class")
    def expected_color(self):
        """The table keeps its constraint, so the second run's rows are refused."""
        return "blue"

    @pytest.fixture(scope="class")
    def expected_error_messages(self):
        return ["DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "id_is_there"]


class TestIncrementalForeignKeyConstraint(Delta, SparkProperties, BaseIncrementalForeignKeyConstraint):
    pass


no_header = pytest.mark.skip(
    reason="dbt-spark's `create table` has no place for a sql_header, and Spark takes one statement at a time"
)


@no_header
class TestTableContractSqlHeader(BaseTableContractSqlHeader):
    pass


@no_header
class TestIncrementalContractSqlHeader(BaseIncrementalContractSqlHeader):
    pass
