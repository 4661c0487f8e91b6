"""The families' scripts are written for Postgres. Here is how Spark spells them, so that the bases
run as they are.
"""

from __future__ import annotations

import re

import pytest
import yaml
from dbt.tests.util import write_file

SPELLINGS = (
    (r"(\{database\}|\bNone)\.", ""),  # a Spark relation has a schema and a name
    (r"\bTIMESTAMP WITHOUT TIME ZONE\b", "timestamp"),
    (r"\b(TEXT|VARCHAR\(\d+\))", "string"),
    (r"\s+default (null|'\w+')", ""),  # a Delta column is added without a default
    (r'"(\w+)"', r"`\1`"),
    # ANSI stores no text into a timestamp
    (r"'(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)'", r"timestamp'\1'"),
)


def spark_statements(script: str) -> list[str]:
    """A Postgres script as Spark statements: one at a time, and on Delta, since the tests update
    what they create.
    """
    for pattern, spelling in SPELLINGS:
        script = re.sub(pattern, spelling, script, flags=re.IGNORECASE)
    return [_on_delta(statement) for statement in script.split(";") if statement.strip()]


def _on_delta(statement: str) -> str:
    if re.match(r"\s*create table \S+ as\b", statement, re.IGNORECASE):
        return re.sub(
            r"(create table \S+) as\b", r"\1 using delta as", statement, count=1, flags=re.IGNORECASE
        )
    if re.match(r"\s*create table\b", statement, re.IGNORECASE):
        return f"{statement} using delta"
    return statement


class SparkScripts:
    """`project.run_sql` takes a base's Postgres script."""

    @pytest.fixture(scope="class")
    def project(self, project):
        plain = project.run_sql

        def run_sql(script, fetch=None):
            answers = [plain(statement, fetch) for statement in spark_statements(script)]
            return answers[-1] if answers else None

        project.run_sql = run_sql
        return project


class Delta:
    """Snapshots, merges and updates need a table format that can do them. The base's own
    configuration stays.
    """

    @pytest.fixture(scope="class")
    def dbt_project_yml(self, dbt_project_yml, project_root):
        for kind in ("seeds", "snapshots", "models"):
            dbt_project_yml.setdefault(kind, {})["+file_format"] = "delta"
        write_file(yaml.safe_dump(dbt_project_yml), project_root, "dbt_project.yml")
        return dbt_project_yml
