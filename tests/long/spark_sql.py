"""Spark's own SQL tests as models: every query over tables that change.

A file's statements are run in order. What a query reads is kept as it is then, and becomes
maintained tables; the query becomes a `self_correcting_mv` over them. Rows change at random, two
rounds; after each the model holds what Spark gives for the query, or it is a defect.

    python -m tests.long.spark_sql --seed 1 --count 100000
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from dbt.adapters.mvsink.engine import DataflowError, sql
from dbt.adapters.mvsink.user_sql.splice import relation_names, relations, spliced
from dbt.adapters.mvsink.user_sql.words import words
from tests.long import rounds, tpc
from tests.long.contents import Contents
from tests.long.judge import DEFECTS, Case, Judge
from tests.long.kept import Kept, arguments
from tests.long.rounds import Tables
from tests.long.session import session
from tests.long.spark_tests_jar import Script, scripts
from tests.support.maintained import Warehouse, mode

BATCH, ROUNDS = 60, 2
QUERY = re.compile(r"(\(|\s|/\*.*?\*/)*(select|with|values|from|table)\b", re.IGNORECASE | re.DOTALL)
EVERYWHERE = re.compile(
    r"\s*(set\s+var|declare|create\s+(or\s+replace\s+)?temp(orary)?\s+function|set\s+time\s+zone)",
    re.IGNORECASE,
)
# functions of Spark's own test suite, in Scala and Python
NEEDS_TEST_FUNCTIONS = ("udf/", "udaf/", "udtf/")
TESTDATA = {
    "testdata": "select cast(id as int) key, cast(id as string) value from range(1, 101)",
    "arraydata": "select * from values (array(1, 2, 3), array(array(1, 2, 3))), (array(2, 3, 4), array(array(2, 3, 4))) "
    "as t(arraycol, nestedarraycol)",
    "mapdata": "select * from values map(1, 'a1', 2, 'b1', 3, 'c1', 4, 'd1', 5, 'e1'), map(1, 'a2', 2, 'b2', 3, 'c2', 4, 'd2'), "
    "map(1, 'a3', 2, 'b3', 3, 'c3'), map(1, 'a4', 2, 'b4'), map(1, 'a5') as t(mapcol)",
    "aggtest": "select * from values (56, 7.8f), (100, 99.097f), (0, 0.09561f), (42, 324.78f) as t(a, b)",
}
ONEK = "unique1,unique2,two,four,ten,twenty,hundred,thousand,twothousand,fivethous,tenthous,odd,even"


@dataclass
class ScriptQuery:
    """A query of a file, with its relations as they were then."""

    name: str
    text: str
    relations: dict[str, Contents]
    settings: dict[str, str]
    problem: str = ""


@dataclass
class Reading:
    """Runs a file's statements in ``session``, and keeps what its queries read, below ``place``."""

    session: Any
    others: Sequence[Any]  # sessions that need variables and functions, too
    place: Path
    known: dict[str, Contents] = field(default_factory=dict)
    made: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    tables: set[str] | None = None  # of the session, unless a statement has run since

    def read(self, script: Script, wanted: Any) -> Iterator[ScriptQuery]:
        """Its queries for which ``wanted(name)`` is true."""
        self.settings = dict(script.settings)
        for key, value in self.settings.items():
            _set(self.session, key, value)
        for number, statement in enumerate(script.statements):
            name = f"{script.name}#{number}"
            if not QUERY.match(statement):
                self._statement(statement)
            elif wanted(name):
                yield self._query(name, statement)

    def _statement(self, statement: str) -> None:
        self.tables = None
        mentioned = {word.lower() for word in re.findall(r"\w+", statement)}
        self.known = {name: each for name, each in self.known.items() if name not in mentioned}
        if re.match(r"\s*use\b", statement, re.IGNORECASE):
            return
        everywhere = EVERYWHERE.match(statement)
        for each in (self.session, *(self.others if everywhere else ())):
            try:
                each.sql(statement).collect()
            except Exception:
                continue
        if match := re.match(r"\s*set\s+(spark\.[\w.]+)\s*=\s*(.*)", statement, re.IGNORECASE | re.DOTALL):
            self.settings = {**self.settings, match[1]: match[2].strip()}

    def _query(self, name: str, text: str) -> ScriptQuery:
        current = ScriptQuery(name, text, {}, self.settings)
        try:
            stream = words(text)
            ctes = {stream[at].text.lower() for at in range(len(stream) - 2) if _is_cte(stream, at)}
            names = [each for each in relation_names(text) if each.strip("`").lower() not in ctes]
        except DataflowError as error:
            current.problem = f"not rewritten: {error}"
            return current
        if self.tables is None:
            self.tables = {row[1].lower() for row in self.session.sql("show tables").collect()}
        tables = self.tables
        for each in names:
            short = each.strip("`").lower()
            if "." in each and "`" not in each:
                current.problem = "not rewritten: a name with a schema"
            elif short in tables:
                contents = self._contents(short)
                if isinstance(contents, str):
                    current.problem = contents
                else:
                    current.relations[each] = contents
        shadowed = ctes & tables
        if shadowed:
            current.problem = "not rewritten: a CTE has a relation's name"
        return current

    def _contents(self, name: str) -> Contents | str:
        if name not in self.known:
            self.made += 1
            try:
                self.known[name] = Contents(
                    self.session, self.session.table(sql.identifier(name)), self.place / f"r{self.made}"
                )
            except Exception as error:
                return f"a relation cannot be kept: {str(error).splitlines()[0][:60]}"
        return self.known[name]


def _is_cte(stream: Sequence[Any], at: int) -> bool:
    """Whether ``name [(columns)] AS (`` starts there."""
    if not stream[at].is_name:
        return False
    behind = at + 1
    if stream[behind].upper == "(":
        while behind < len(stream) and stream[behind].upper != ")":
            behind += 1
        behind += 1
    following = [word.upper for word in stream[behind : behind + 2]]
    return following == ["AS", "("]


def _set(spark: Any, key: str, value: str) -> None:
    try:
        spark.conf.set(key, value)
    except Exception:  # of Spark's core: it cannot be set, or no longer exists
        return


@dataclass
class Harness:
    """All files, one after the other, in the sessions of one Spark."""

    spark: Any
    root: Path
    kept: Kept
    rounds: int = ROUNDS
    constants: bool = False  # queries that read no relation, too: one run finds nothing changed
    schemas: int = 0

    def run(self, chosen: Sequence[Script], wanted: Any) -> None:
        """The queries of these files for which ``wanted`` is true and that have no outcome yet."""
        for script in chosen:
            if len(self.kept.cases) >= self.kept.count:
                return
            if script.name.startswith(NEEDS_TEST_FUNCTIONS):
                continue
            self._file(script, lambda name: name not in self.kept and wanted(name))

    def _file(self, script: Script, wanted: Any) -> None:
        if not any(wanted(f"{script.name}#{n}") for n, s in enumerate(script.statements) if QUERY.match(s)):
            return
        self.schemas += 1
        database = f"d{self.schemas}"
        self.spark.sql(f"create database if not exists {database}")
        own, witness, models = (self._session(database) for _ in range(3))
        for name, query in TESTDATA.items():
            own.sql(query).createOrReplaceTempView(name)
        onek = ", ".join(f"cast(pmod(id * 7, {n + 3}) as int) {c}" for n, c in enumerate(ONEK.split(",")))
        for name in ("onek", "tenk1", "tenk2"):
            strings = "concat('S', id % 4) stringu1, concat('T', id % 9) stringu2, 'AAAAxx' string4"
            own.sql(f"select {onek}, {strings} from range(40)").createOrReplaceTempView(name)
        with TemporaryDirectory(dir=self.root) as place:
            reading = Reading(own, (witness, models), Path(place))
            current = reading.read(script, wanted)
            while batch := list(islice(current, BATCH)):
                self._batch(batch, witness, models, Path(place))
        self.spark.sql(f"drop database {database} cascade")

    def _session(self, database: str) -> Any:
        made = self.spark.newSession()
        for key, value in self.spark.conf.getAll.items():
            if key.startswith("spark.sql.") and "static" not in key:
                _set(made, key, value)
        made.sql(f"use {database}")
        return made

    def _batch(self, batch: Sequence[ScriptQuery], witness: Any, models: Any, place: Path) -> None:
        """Queries of one setting together."""
        for each in batch:
            if each.problem or not (each.relations or self.constants):
                self.kept.add(each.name, [each.problem or "reads no relation"])
        left = [each for each in batch if not each.problem and (each.relations or self.constants)]
        while left:
            settings = left[0].settings
            same = [each for each in left if each.settings == settings]
            left = [each for each in left if each.settings != settings]
            for key, value in settings.items():
                _set(witness, key, value)
                _set(models, key, value)
            self._same(same, witness, models, place)

    def _same(self, current: Sequence[ScriptQuery], witness: Any, models: Any, place: Path) -> None:
        self.schemas += 1
        schema_name = f"m{self.schemas}"
        models.sql(f"create schema {schema_name}")
        warehouse = Warehouse(models, place / schema_name)
        random = Random(f"{self.kept.seed} {current[0].name}")
        judge = Judge(warehouse, schema_name, witness, random)
        tables = Tables(warehouse)
        cases = [_case(each, tables, schema_name, random) for each in current]
        with mode("wherever"):
            rounds.run(judge, tables, cases, self.kept, self.rounds, share=0.85)
        models.sql(f"drop schema {schema_name} cascade")


def _case(current: ScriptQuery, tables: Tables, schema: str, random: Random) -> Case:
    """The query over ``tables``, in ``schema``, of what it reads."""
    references, edits = [], []
    for name, contents in current.relations.items():
        _, table = tables.names.setdefault(contents, (schema, f"r{len(tables.names)}"))
        references.append(f"`{schema}`.`{table}`")
        for span in relations(current.text, name):
            alias = "" if span.alias or span.as_query else f" as {sql.identifier(name.strip('`'))}"
            keyword = "table " if span.as_query else ""
            edits.append((span.start, span.end, f"{keyword}{references[-1]}"))
            if alias:
                edits.append((span.alias_at, span.alias_at, alias))
    options = {"state": "always"} if random.random() < 0.3 else {}
    model = spliced(current.text, edits)
    return Case(current.name, current.text, model, current.relations, references, options)


def every_script() -> list[Script]:
    """The files, and the sets of TPC queries."""
    return [*tpc.scripts(), *scripts()]


def sample(random: Random, count: int, each: int = 4) -> tuple[list[Script], set[str]]:
    """So many queries that read something, of a few files that do not take long to set up."""
    files = [script for script in scripts() if not script.name.startswith(NEEDS_TEST_FUNCTIONS)]
    random.shuffle(files)
    chosen: list[Script] = []
    names: set[str] = set()
    for script in files:
        numbered = enumerate(script.statements)
        reading = [
            n for n, text in numbered if QUERY.match(text) and re.search(r"\bfrom\s+\w", text, re.IGNORECASE)
        ]
        others = sum(1 for text in script.statements if not QUERY.match(text))
        if len(reading) >= each and 0 < others < 20:
            chosen.append(script)
            names |= {f"{script.name}#{n}" for n in random.sample(reading, each)}
        if len(names) >= count:
            break
    return chosen, names


def main() -> None:
    kept, options = arguments(
        "spark_sql",
        100_000,
        {"only": "files whose names have this in them", "constants": "yes: queries of constants, too"},
    )
    chosen = [script for script in every_script() if options.only in script.name]
    Random(kept.seed).shuffle(chosen)
    with session() as spark, TemporaryDirectory() as root:
        Harness(spark, Path(root), kept, constants=bool(options.constants)).run(chosen, lambda name: True)
    print(kept.summary(DEFECTS))


if __name__ == "__main__":
    main()
