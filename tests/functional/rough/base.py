"""Tables as they are in real life: one dbt project runs a table of cases three times, and every
case is checked by itself.

The second run finds nothing to do. Before the third one row of `step` changes, which every case's
query reads. After the first and the third run the published view holds what the query gives, as a
multiset; so does the shard, read by DuckDB as the README shows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from dbt.tests.util import run_dbt, write_file
from deltalake import DeltaTable

STEP = "select cast({} as bigint) as n"
MODEL = "{{{{ config(materialized='self_correcting_mv'{}) }}}}\n{}"


@dataclass(frozen=True)
class Case:
    """One model. In ``query``, ``:n`` is 1 in the first two runs and 2 in the third."""

    query: str
    wanted: str = ""  # what it holds, if that is not what ``query`` says
    configs: Mapping[str, Any] = field(default_factory=dict)
    in_duckdb: bool = True  # False where the README promises nothing: the reason is at the case

    def model(self) -> str:
        listed = "".join(f", {key}={value!r}" for key, value in self.configs.items())
        return MODEL.format(listed, self.query.replace(":n", "(select n from {{ ref('step') }})"))

    def at(self, n: int, schema: str) -> str:
        """What the model holds then, as SQL."""
        query = (self.wanted or self.query).replace(":n", f"cast({n} as bigint)")
        return re.sub(r"\{\{ ref\('(\w+)'\) \}\}", rf"`{schema}`.`\1`", query)


VERIFIED = ("--vars", "{mvsink_verify: true}")


@dataclass
class Observed:
    """What three runs said and left: per run status, message, inserted and deleted rows; what is
    wrong with the contents after it.
    """

    outcomes: list[tuple[str, str, int, int]] = field(default_factory=list)
    wrong: dict[str, Any] = field(default_factory=dict)
    expected: list[tuple[int, int]] = field(default_factory=list)
    contents: Counter[str] = field(default_factory=Counter)


class Table:
    """A project of one model per case. A subclass is a table: `CASES`."""

    CASES: Mapping[str, Case] = {}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"step.sql": STEP.format(1)} | {
            f"{name}.sql": case.model() for name, case in self.CASES.items()
        }

    @pytest.fixture(scope="class")
    def observed(self, project: Any, spark: Any) -> dict[str, Observed]:
        return three_runs(project, spark, self.CASES)

    def test_two_runs_a_change_and_contents(self, observed: dict[str, Observed], case: str) -> None:
        if faults := problems(observed[case]):
            pytest.fail("\n".join(faults), pytrace=False)


def problems(observed: Observed) -> list[str]:
    """In words; empty if all three runs and both contents were as they should."""
    failed = [f"{status}: {message}" for status, message, _, _ in observed.outcomes if status != "success"]
    if failed or len(observed.outcomes) != 3:
        return failed or [f"{len(observed.outcomes)} runs"]
    first, second, third = ((inserted, deleted) for _, _, inserted, deleted in observed.outcomes)
    faults = [f"{where}: {what}" for where, what in observed.wrong.items()]
    if [first, third] != observed.expected:
        faults.append(f"runs 1 and 3 said {first}, {third}; right is {observed.expected}")
    if second != (0, 0) or "+0 -0" not in observed.outcomes[1][1]:
        faults.append(f"the second run said {observed.outcomes[1][1]}")
    if third == (0, 0):
        faults.append("the case changes nothing")
    return faults


def three_runs(
    project: Any, spark: Any, cases: Mapping[str, Case], *arguments: str, command: str = "run"
) -> dict[str, Observed]:
    """`dbt run` or `build` three times; what each case's model said and held."""
    observed = {name: Observed() for name in cases}
    for run, n in enumerate((1, 1, 2)):
        write_file(STEP.format(n), project.project_root, "models", "step.sql")
        verified = VERIFIED if run == 1 else ()  # else the second run would evaluate nothing
        for result in run_dbt([command, *arguments, *verified], expect_pass=None):
            if result.node.name in observed:
                answer = result.adapter_response
                outcome = (
                    str(result.status),
                    result.message,
                    answer.get("rows_inserted", -1),
                    answer.get("rows_deleted", -1),
                )
                observed[result.node.name].outcomes.append(outcome)
        if run != 1:
            for name, case in cases.items():
                if observed[name].outcomes and observed[name].outcomes[-1][0] == "success":
                    compare(project, spark, name, case, n, observed[name])
    return observed


def compare(project: Any, spark: Any, name: str, case: Case, n: int, observed: Observed) -> None:
    """What the view, and the shard in DuckDB, hold more and less than the query gives."""
    schema, identifier = schema_of(project, case), case.configs.get("alias", name)
    view = f"`{schema}`.`{identifier}`"
    try:
        wanted = Counter(rows(spark.sql(case.at(n, project.test_schema)).toArrow()))
        observed.expected.append((total(wanted - observed.contents), total(observed.contents - wanted)))
        observed.contents = wanted
        differ(observed, f"view, step {n}", Counter(rows(spark.table(view).toArrow())), wanted)
        if case.in_duckdb:
            differ(
                observed,
                f"DuckDB, step {n}",
                in_duckdb(uri_of(project, schema, identifier), spark.table(view).columns),
                wanted,
            )
    except Exception as error:
        observed.wrong[f"step {n}"] = repr(error)


def differ(observed: Observed, where: str, actual: Counter[str], wanted: Counter[str]) -> None:
    if actual != wanted:
        observed.wrong[where] = {"extra": first_few(actual - wanted), "missing": first_few(wanted - actual)}


def total(rows: Counter[str]) -> int:
    return sum(rows.values())


def schema_of(project: Any, case: Case) -> str:
    custom = case.configs.get("schema")
    return f"{project.test_schema}_{custom}" if custom else str(project.test_schema)


def uri_of(project: Any, schema: str, identifier: str) -> str:
    """Where the README says that the shard is."""
    return str(Path(project.adapter.config.credentials.shards, schema, identifier))


def in_duckdb(uri: str, names: list[str]) -> Counter[Any]:
    """The README's statement."""
    columns = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.register("shard", DeltaTable(uri).to_pyarrow_dataset())
        query = f"select {columns}, sum(_mv_diff) as _rough from shard where _mv_error is null group by all having _rough > 0"
        table = connection.sql(query).arrow().read_all()
    copies = table.column("_rough").to_pylist()
    return Counter({row: int(times) for row, times in zip(rows(table.drop_columns(["_rough"])), copies)})


def rows(table: pa.Table) -> list[str]:
    """Rows as text: timestamps as microseconds, since Python's end at year 9999; a NaN equals
    another, -0.0 equals 0.0.
    """
    for number, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            as_integers = table.column(number).cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
            table = table.set_column(number, column.name, as_integers)
        elif pa.types.is_date(column.type):
            table = table.set_column(
                number, column.name, table.column(number).cast(pa.date32()).cast(pa.int32())
            )
    columns = [column.to_pylist() for column in table.columns]
    return [repr([plain(value) for value in row]) for row in zip(*columns)]


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        inner = [plain(item) for item in value]
        # a map's entries
        return sorted(inner, key=repr) if inner and all(isinstance(item, tuple) for item in inner) else inner
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    return value


def first_few(rows: Counter[str]) -> list[str]:
    return [f"{row[:300]} x {times}" for row, times in list(rows.items())[:3]]


@contextmanager
def settings(spark: Any, values: Mapping[str, str]) -> Iterator[None]:
    """A user's settings, and what they were before."""
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
