"""The sink's engine seam on an in-process Spark session, and a shard to run it against. For tests
and benchmarks.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from dbt.adapters.mvsink.adapter.dbt_engine import cores_of
from dbt.adapters.mvsink.connection import cursor
from dbt.adapters.mvsink.engine import Column, Engine, EngineError, arrow_schema, parse_type
from dbt.adapters.mvsink.engine.plan_text import same_plan
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.shard import ShardClient, WriteHandle
from dbt.adapters.mvsink.shard_sql import Layout, view_query
from dbt.adapters.mvsink.shard_sql.stager import by_conf, pinned
from dbt.adapters.mvsink.sink import Driver, Outcome, SinkRequest
from tests.support.duck_engine import DuckEngine

_STATE = re.compile(r"SQLSTATE: ((?:22|23)\w{3})")
T0 = 1_800_000_000_000


class SessionEngine(Engine):
    """`Engine` on a SparkSession; remembers every statement it ran."""

    def __init__(self, session: Any):
        self.session = session
        self.ran: list[tuple[str, str]] = []

    def execute(self, statement: str, what: str) -> None:
        self._run(statement, what, fetch=False)

    def query(self, query: str, what: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self._run(query, what, fetch=True)]

    def arrow(self, query: str, what: str) -> Any:
        return self._run(query, what, fetch="arrow")

    def cores_here(self) -> int:
        return cores_of(self.session.conf.get("spark.master"), os.cpu_count() or 1)

    @contextmanager
    def files_views(self, paths: Sequence[str]) -> Iterator[dict[str, str]]:
        names = cursor.make_views(self.session, paths)
        try:
            yield names
        finally:
            cursor.drop_views(self.session, names.values())

    def same_plan(self, one: str, other: str, stand_ins: Any) -> bool:
        try:
            return same_plan(partial(cursor.compared, self.session), one, other, stand_ins)
        except Exception as error:
            raise EngineError(str(error)) from error

    def parsed(self, query: str) -> str:
        try:
            return cursor.parsed(self.session, query)
        except Exception as error:
            raise EngineError(str(error)) from error

    def columns(self, query: str) -> list[tuple[str, str]]:
        return [(row[0], row[1]) for row in self.query(f"describe query\n{query}", "describe")]

    def settings(self, wanted: Any) -> Any:
        return pinned(self.session, wanted, *by_conf(self.session.conf))

    def _run(self, statement: str, what: str, *, fetch: bool | str) -> Any:
        self.ran.append((what, statement))
        try:
            frame = self.session.sql(statement)
            if fetch == "arrow":
                return frame.toArrow()
            return frame.collect() if fetch else None
        except Exception as error:
            state = _STATE.search(str(error))
            raise EngineError(str(error).split("\n")[0], state[1] if state else "") from error


@dataclass
class Model:
    """One maintained model, run by run, without dbt. Without a session it runs on DuckDB."""

    session: Any
    root: Path
    name: str = "dev.m"
    clock: Any = field(default_factory=lambda: itertools.count(T0, 1000))
    options: dict[str, Any] = field(default_factory=lambda: {"retain_history": 86_400_000})

    @property
    def uri(self) -> str:
        return str(self.root / self.name.replace(".", "/"))

    def engine(self) -> Any:
        return SessionEngine(self.session) if self.session is not None else DuckEngine()

    def columns(self, query: str) -> tuple[Column, ...]:
        return tuple(Column(name, parse_type(text, name)) for name, text in self.engine().columns(query))

    def open(self, query: str) -> WriteHandle:
        return open_shard(self.uri, arrow_schema(self.columns(query)))

    def request(self, query: str, **changes: Any) -> SinkRequest:
        time = changes.pop("time", None) or next(self.clock)
        columns = changes.pop("columns", None) or self.columns(query)
        request = SinkRequest(
            model=self.name,
            query=query,
            columns=columns,
            time=time,
            clock=time,
            references=References(),
            **self.options,
        )
        return replace(request, **changes)

    def run(self, query: str, **changes: Any) -> Outcome:
        """One run; the query text is what the model's compiled SQL would be."""
        columns = self.columns(query)
        with open_shard(self.uri, arrow_schema(columns)) as handle:
            return Driver(self.request(query, columns=columns, **changes), handle, self.engine()).run()

    def view(self) -> str:
        """The query of the view that would be published."""
        with open_shard(self.uri, None) as handle:
            return view_query(Layout.of(handle, handle.state()))

    def contents(self) -> Any:
        """What a reader of the published view gets, as a DataFrame."""
        return self.session.sql(self.view())

    def rows(self) -> list[tuple[Any, ...]]:
        read = (
            self.engine().query(self.view(), "view")
            if self.session is None
            else map(tuple, self.contents().collect())
        )
        return sorted(read, key=repr)

    def assert_holds(self, query: str) -> None:
        """The contents and the result of ``query`` are equal as multisets."""
        if self.session is None:
            assert self.rows() == sorted(self.engine().query(query, "query"), key=repr)
            return
        contents, wanted = self.contents(), self.session.sql(query)
        names = [f"c{n}" for n in range(len(wanted.columns))]
        signed = [
            frame.toDF(*names).selectExpr(*names, f"{sign} as copies")
            for frame, sign in ((contents, 1), (wanted, -1))
        ]
        sums = signed[0].unionAll(signed[1]).groupBy(*names).agg({"copies": "sum"})
        assert sums.where("`sum(copies)` <> 0").take(5) == []


def open_shard(uri: str, schema: Any) -> WriteHandle:
    """A write handle, whatever columns the shard has; created with ``schema`` if there is none."""
    return ShardClient().open_or_create(uri, schema, "test")
