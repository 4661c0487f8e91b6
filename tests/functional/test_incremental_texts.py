"""The queries of TPC-H and of a small dbt project over tables that change: what the changes of the
inputs give is what the query gives, after every round.

A CI run has a few queries and one round. ``MVSINK_TEXT_ROUNDS=20`` runs all of them.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from dbt.adapters.mvsink.engine import arrow_schema
from dbt.adapters.mvsink.incremental import Analysed, Sums, analyse, sums_of
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.sink import Driver, Incremental
from tests.support.known_inputs import KnownInputs
from tests.support.session_engine import T0, Model, open_shard
from tests.unit.incremental.test_texts import schema, texts

ROUNDS = int(os.environ.get("MVSINK_TEXT_ROUNDS", "1"))
EVERY = "MVSINK_TEXT_ROUNDS" in os.environ
FEW = {"tpch": ("1", "13"), "jaffle_shop": ("customers",)}
HOUR = 3_600_000
KEYS = {
    "lineitem": "l_orderkey, l_linenumber",
    "partsupp": "ps_partkey, ps_suppkey",
    "orders": "o_orderkey",
    "customer": "c_custkey",
    "part": "p_partkey",
    "supplier": "s_suppkey",
    "nation": "n_nationkey",
    "region": "r_regionkey",
}


class Database:
    """The inputs of a set of queries, as shards below ``root``, round by round."""

    def __init__(self, spark, root: Path, name: str, chosen: dict[str, str]):
        self.spark, self.root, self.name = spark, root, name
        self.random = random.Random(7)
        self.columns = {
            table: columns
            for table, columns in schema(name).items()
            if any(table in text.lower() for text in chosen.values())
        }
        self.inputs = {table: Model(spark, root, f"in.{table}") for table in self.columns}
        if name == "tpch":
            command = [str(Path(sys.executable).parent / "tpchgen-cli"), "parquet", "-s", "0.01"]
            subprocess.run(
                [*command, f"--tables={','.join(self.columns)}", f"--output-dir={root}"], check=True
            )

    def rows(self, table: str, at: int) -> str:
        return self._tpch(table, at) if self.name == "tpch" else self._made(table, at)

    def _tpch(self, table: str, at: int) -> str:
        """Some rows are missing, others have other amounts and dates: which, depends on ``at``."""
        hashed = f"pmod(xxhash64({KEYS[table]}, {at}), 25)"
        items = []
        for column, kind in self.columns[table]:
            changed = {"date": f"date_add({column}, 40)"}.get(kind, column)
            if kind.startswith("decimal"):
                changed = f"cast({column} + 1 as {kind})"
            items.append(f"cast(if({hashed} = 1, {changed}, {column}) as {kind}) {column}")
        few = table in ("nation", "region")
        return f"select {', '.join(items)} from parquet.`{self.root}/{table}.parquet`" + (
            "" if few else f" where {hashed} <> 0"
        )

    def _made(self, table: str, at: int) -> str:
        """300 rows of a few values each; a tenth of them depends on ``at``."""
        seed = f"if(pmod(xxhash64(id, {at}), 10) = 0, {at}, 0)"
        items = []
        for number, (column, kind) in enumerate(self.columns[table]):
            value = f"pmod(xxhash64(id, {number}, {seed}), 40)"
            made = f"cast({value} as {kind})"
            if kind == "string":
                made = f"case {value} when 1 then null when 2 then 'jaffle' when 3 then 'beverage' else concat('k', {value}) end"
            elif kind == "timestamp":
                made = f"timestamp'2026-01-01' + make_interval(0, 0, 0, cast({value} as int))"
            elif kind.startswith("decimal"):  # of which some have one digit before the point
                made = f"cast({value} / 10.0 as {kind})"
            elif kind == "boolean":
                made = f"{value} > 20"
            items.append(f"{made} {column}")
        return f"select {', '.join(items)} from range(300)"

    def change(self, at: int) -> None:
        """A refresh of some of the tables, of all in the first round."""
        names = list(self.inputs)
        chosen = names if at == 0 else self.random.sample(names, self.random.randint(1, len(names)))
        for table in chosen:
            self.inputs[table].run(self.rows(table, at), time=T0 + at * HOUR)


class Query:
    """A model of one text; by its sums, if it has any and ``summed``."""

    def __init__(self, database: Database, name: str, text: str, summed: bool = False):
        self.database, self.text = database, text
        uris = {table: model.uri for table, model in database.inputs.items()}
        self.model = Model(database.spark, database.root, f"dev.{name}{'_summed' if summed else ''}")
        engine = self.model.engine()
        self.steps = [(self.model, KnownInputs(text, uris, engine))]
        if summed:
            self.steps = list(self._by_sums(uris, engine))

    def _by_sums(self, uris, engine):
        known = KnownInputs(self.text, uris, engine)
        known.look()
        analysed = analyse(self.text, known.columns_of)
        assert isinstance(analysed, Analysed)
        sums = sums_of(analysed)
        if not isinstance(sums, Sums):
            return
        kept = Model(self.database.spark, self.database.root, f"{self.model.name}_sums")
        columns = kept.columns(References(known.look()).described(sums.query))
        shown = sums.shown("kept_sums", {column.name: column.type.text for column in columns})
        if shown is not None:
            yield kept, KnownInputs(sums.query, uris, engine)
            yield self.model, KnownInputs(shown, {"kept_sums": kept.uri}, engine)

    def run(self, time: int) -> bool:
        """Whether it was incremental; afterwards it holds what the text gives."""
        outcomes = []
        for model, known in self.steps:
            references = References(known.look())
            columns = model.columns(references.described(known.query))
            policy = Incremental.ALWAYS if known.contents is not None else Incremental.AUTO
            request = model.request(
                known.query,
                columns=columns,
                time=time,
                references=references,
                evidence=known,
                incremental=policy,
            )
            with open_shard(model.uri, arrow_schema(columns)) as handle:
                outcomes.append(Driver(request, handle, model.engine()).run())
        uris = {table: each.uri for table, each in self.database.inputs.items()}
        known = KnownInputs(self.text, uris, None)
        self.model.assert_holds(References(known.look()).read_at(self.text, time))
        return all(outcome.written.incremental for outcome in outcomes)


@pytest.mark.parametrize("name", FEW)
@pytest.mark.timeout(7200 if EVERY else 600)
def test_the_changes_of_the_inputs_give_what_the_query_gives(name, quick, tmp_path):
    chosen = {key: text for key, text in texts(name).items() if EVERY or key in FEW[name]}
    database = Database(quick, tmp_path, name, chosen)
    database.change(0)
    ran: Counter[bool] = Counter()
    queries = [Query(database, f"q{key}", text) for key, text in chosen.items()]
    summed = [Query(database, f"q{key}", text, summed=True) for key, text in chosen.items()]
    queries += [query for query in summed if query.steps]
    for at in range(ROUNDS + 1):
        if at:
            database.change(at)
        for query in queries:
            ran[query.run(T0 + at * HOUR)] += bool(at)
    print(f"{name}: {len(queries)} models, {ROUNDS} rounds: {dict(ran)}")
    assert ran == {True: ran[True], False: 0}
