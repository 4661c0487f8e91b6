"""Random histories of Delta tables, of tables of files and of Iceberg tables, each watched by a
view (`incremental: always`) and a task: after every step both equal what Spark reads.

    python -m tests.long.input_histories --seed 1 --count 450
    python -m tests.long.input_histories --format delta --case delta17    # one history again
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from tests.long.delta_history import DeltaHistory
from tests.long.files_history import FilesHistory
from tests.long.history import ZONES, History, shortened
from tests.long.iceberg_history import IcebergHistory
from tests.long.kept import Kept, arguments
from tests.long.session import session
from tests.support.maintained import Warehouse, multiset, wherever

FORMATS: Mapping[str, tuple[type[History], int]] = {  # of 9 histories so many
    "delta": (DeltaHistory, 6),
    "files": (FilesHistory, 2),
    "iceberg": (IcebergHistory, 1),
}
SETTINGS = {
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.parallelDelete.enabled": "false",
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    "spark.sql.session.timeZone": "UTC",
}
DIFFERS, FAILED = "differs", "failed"
DEFECTS = (DIFFERS, FAILED)
LEAST, MOST = 4, 6  # steps
ZONE = "spark.sql.session.timeZone"
FORCED = re.compile(r"`incremental` is always, but")  # the error of a run that would evaluate the query


def view_text(random: Random, history: History) -> str:
    """A query over the history's table."""
    table, columns = history.relation, history.selected
    by = [each.quoted for each in history.columns if each.name in history.partitions] or ["id"]
    chosen = random.choice(history.columns)
    forms = [
        f"select * from {table}",
        f"select {columns} from {table}",
        f"select {columns} from {table}",
        f"select {columns} from {table}",
        f"select {columns} from {table} where id % 3 <> 1",
        f"select {by[0]} as g, count(*) as n, sum(id % 100) as s from {table} group by {by[0]}",
        f"select {', '.join(f'{each} as g{n}' for n, each in enumerate(by))}, max(id) as m from {table} group by {', '.join(by)}",
        f"select distinct {by[0]} as g from {table}",
        f"select a.id, a.{by[0]} as g, b.{by[-1]} as h from {table} a join {table} b on a.id = b.id and a.{by[0]} <=> b.{by[0]}",
        f"select id, {by[0]} as g from {table} where {by[0]} is not null",
    ]
    if "<" not in chosen.kind:
        forms.append(f"select {columns} from {table} where not ({chosen.quoted} <=> {chosen.value(random)})")
    return random.choice(forms)


def task_text(history: History) -> str:
    """Every change, with what it was."""
    name, columns = history.task_relation, history.selected
    return (
        f"on input {name} as (\n  insert into {{this}} select {columns}, 'came' as _what from {name};\n"
        f"  insert into {{this}} select {columns}, 'went' as _what from {name} /* mv_deletes */)"
    )


@dataclass
class Watched:
    """A history with its view and its task. ``outcomes``: one of each per step."""

    history: History
    view: str
    task: str
    outcomes: list[str] = field(default_factory=list)
    detail: str = ""
    reset: bool = False  # the task, next time: it was refused
    steps: Counter[str] = field(default_factory=Counter)


@dataclass
class Harness:
    """Histories one after another. ``zone``: of the session that reads."""

    spark: Any
    root: Path
    kept: Kept
    steps: tuple[int, int] = (LEAST, MOST)
    zone: str = "UTC"

    def __post_init__(self) -> None:
        self.writer, self.witness = self.spark.newSession(), self.spark.newSession()
        for key, value in SETTINGS.items():
            if not key.startswith("spark.delta."):
                self.writer.conf.set(key, value)

    def run_some(self, counts: Mapping[str, int]) -> str:
        """So many of each format; what is wrong with them."""
        for kind, count in counts.items():
            for number in range(count):
                self._history(f"{kind}{number}", False)
        self._zone("UTC")
        return self.kept.summary(DEFECTS) if self.kept.defects(DEFECTS) else ""

    def run(self, formats: Sequence[str], only: str = "") -> None:
        """As many histories as are wanted; or that one."""
        for name in names(formats, self.kept.count):
            if name == only or (not only and name not in self.kept):
                self._history(name, bool(only))

    def _history(self, name: str, shown: bool) -> None:
        random, kind = Random(f"{self.kept.seed} {name}"), re.sub(r"\d", "", name)
        schema, place = f"h_{name}", self.root / name
        self.spark.sql(f"create schema if not exists {schema}")
        place.mkdir(parents=True)
        self._zone("UTC")
        warehouse = Warehouse(self.spark, place / "shards")
        history = FORMATS[kind][0](self.writer, self.witness, random, schema, "t", place)
        watched = Watched(history, "", "")
        try:
            self._live(watched, warehouse)
        except Exception as error:
            watched.outcomes.append(f"{FAILED}: {reason(error)}")
            watched.detail = f"{type(error).__name__}: {error}"[:3000]
        more = {"history": history.done, "view": watched.view} if watched.detail or shown else {}
        if shown:
            print("\n".join([*history.done, watched.view, *watched.outcomes, watched.detail]))
        self.kept.add(name, watched.outcomes, steps=watched.steps, detail=watched.detail, **more)
        history.drop()
        self.spark.sql(f"drop schema {schema} cascade")
        shutil.rmtree(place, ignore_errors=True)

    def _live(self, watched: Watched, warehouse: Warehouse) -> None:
        history, random = watched.history, watched.history.random
        if random.random() < 0.4:
            self._zone(random.choice(ZONES))
        _created(history)
        watched.view, watched.task = view_text(random, history), task_text(history)
        steps = random.randint(*self.steps)
        for number in range(steps + 1):
            taken = history.step() if number else ["created"]
            watched.outcomes += [f"writer refused {each}" for each in history.refusals]
            history.refusals.clear()
            if number and random.random() < 0.08:
                self._zone(random.choice(ZONES))
                taken.append("another zone")
            history.done.append(f"== {number}: {', '.join(taken)} (read in {self.zone})")
            watched.steps.update(taken)
            warehouse.engine.forget()
            warehouse.next_round()
            self._compare_view(watched, warehouse)
            self._compare_task(watched, warehouse)
            if watched.detail:
                return

    def _compare_view(self, watched: Watched, warehouse: Warehouse) -> None:
        schema, relation = watched.history.schema, watched.history.relation
        expected = self._expected = self._read(watched, watched.view)
        if isinstance(expected, str):
            watched.outcomes.append(f"view: Spark itself: {expected}")
            return
        mode = "always"
        try:
            try:
                response = warehouse.run(
                    schema, "view", watched.view, [relation], kind="source", incremental="always"
                )
            except DbtRuntimeError as error:
                if not FORCED.search(str(error)):
                    raise
                watched.outcomes.append(f"view refused: {reason(error)}")
                mode = "auto"
                response = warehouse.run(
                    schema, "view", watched.view, [relation], kind="source", incremental="auto"
                )
            actual = self._shown(watched, warehouse, "view", self._columns)
        except Exception as error:
            watched.outcomes.append(f"{FAILED}: view: {reason(error)}")
            watched.detail = f"view: {error}"[:3000]
            return
        if actual == expected:
            if mode == "always":
                watched.outcomes.append(
                    f"view: right, {response.mode}: {shortened(response.not_incremental)}"
                )
            return
        watched.outcomes.append(f"{DIFFERS}: view, {response.mode}")
        watched.detail = f"view, {mode}: {difference(expected, actual)}"

    def _compare_task(self, watched: Watched, warehouse: Warehouse) -> None:
        history = watched.history
        columns = [each.name for each in history.columns]
        plain = f"select {history.selected} from {history.task_relation}"
        expected = self._expected if watched.view == plain else self._read(watched, plain)
        if isinstance(expected, str):
            return
        text = watched.task.replace("{this}", f"`{history.schema}`.`task`")
        try:
            warehouse.run_task(history.schema, "task", text, history.task_relation, reset=watched.reset)
        except Exception as error:
            if isinstance(error, DbtRuntimeError) and not re.search(r"SQLSTATE|\[[A-Z_]+[].]", str(error)):
                watched.outcomes.append(f"task refused: {reason(error)}")
                watched.reset = history.random.random() < 0.7 and f"{history.schema}.task" in warehouse.names
                return
            watched.outcomes.append(f"{FAILED}: task: {reason(error)}")
            watched.detail = f"task: {error}"[:3000]
            return
        watched.reset = False
        actual: Counter[Any] = Counter()
        for row, times in self._shown(watched, warehouse, "task", [*columns, "_what"]).items():
            actual[row[:-1]] += times if row[-1] == "came" else -times
        actual = Counter({row: times for row, times in actual.items() if times})
        if actual == expected:
            watched.outcomes.append("task: right")
            return
        watched.outcomes.append(f"{DIFFERS}: task")
        watched.detail = f"task: {difference(expected, actual)}"

    def _read(self, watched: Watched, query: str) -> Counter[Any] | str:
        """What Spark reads now, in a session of its own; or why it does not."""
        try:
            if watched.history.listed:
                self.witness.sql(f"refresh table {watched.history.relation}")
            table = self.witness.sql(query).toArrow()
        except Exception as error:
            return reason(error)
        self._columns = table.column_names
        return multiset(table)

    def _shown(
        self, watched: Watched, warehouse: Warehouse, name: str, columns: Sequence[str]
    ) -> Counter[Any]:
        """What the model holds: mostly as its shard has it, which takes a tenth of the time."""
        schema = watched.history.schema
        if watched.history.random.random() < 0.8:
            return warehouse.stored(schema, name, columns)
        return multiset(self.spark.table(f"{schema}.{name}").toArrow().select([*columns]))

    def _zone(self, zone: str) -> None:
        self.zone = zone
        for each in (self.spark, self.witness):
            each.conf.set(ZONE, zone)


def _created(history: History) -> None:
    """With other columns, properties or writers if those that were drawn are refused."""
    for _ in range(10):
        try:
            history.create()
            return
        except Exception as error:
            if not history.refused(error):
                raise
            history.refusals.append(f"to create: {reason(error)}")
            history.drop()
            for each in history.place.iterdir():
                shutil.rmtree(each)
            history.done.clear()
    raise AssertionError(history.refusals)


def names(formats: Sequence[str], count: int) -> Iterator[str]:
    """The histories' names: formats take turns by their shares."""
    turns = [each for each in formats for _ in range(FORMATS[each][1])]
    numbers: Counter[str] = Counter()
    for number in range(count):
        kind = turns[number % len(turns)]
        yield f"{kind}{numbers[kind]}"
        numbers[kind] += 1


def difference(expected: Counter[Any], actual: Counter[Any]) -> str:
    missing, more = list((expected - actual).items())[:4], list((actual - expected).items())[:4]
    return f"missing {missing}, too many {more}, negative {[r for r, n in actual.items() if n < 0][:3]}"


def reason(error: Exception) -> str:
    """The error's line that says what it is."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    if type(error).__name__ == "PyNJJavaError" or "An error occurred while calling" in lines[0]:
        return shortened(next((each for each in lines if each.startswith(("Caused by", ": "))), lines[0]))
    return shortened(
        f"{type(error).__name__}: {lines[-1] if lines[0].startswith('Runtime Error') else lines[0]}"
    )


def main() -> None:
    more = {"format": "one of the formats", "case": "the name of one history, which is shown"}
    kept, options = arguments("input_histories", 450, more)
    formats = [options.format] if options.format else [*FORMATS]
    settings = (
        SETTINGS if "files" in formats else {**SETTINGS, "spark.sql.catalogImplementation": "in-memory"}
    )
    with (
        session(("delta", "iceberg") if "iceberg" in formats else ("delta",), settings) as spark,
        TemporaryDirectory() as root,
        wherever(),
    ):
        Harness(spark, Path(root), kept).run(formats, options.case)
    print(kept.summary(DEFECTS))


if __name__ == "__main__":
    main()
