"""Maintained models on a Spark session, run as dbt runs them but without dbt: a text is prepared,
executed, committed and published as a view of the catalog.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.engine import EngineError, sql
from dbt.adapters.mvsink.materialization import run as phases
from dbt.adapters.mvsink.materialization.context import Invocation, RunContext
from dbt.adapters.mvsink.materialization.mv import SelfCorrectingView
from dbt.adapters.mvsink.materialization.options.table import ModelOptions
from dbt.adapters.mvsink.materialization.publish import Docs
from dbt.adapters.mvsink.materialization.response import MvsinkResponse
from dbt.adapters.mvsink.materialization.run import Materialization
from dbt.adapters.mvsink.materialization.task import ContinualTask
from dbt.adapters.mvsink.physical import DIFF
from dbt.adapters.mvsink.relation import MvsinkRelation
from dbt.adapters.mvsink.shard import OpenShards, ShardClient
from dbt.adapters.mvsink.shard_sql.published_view import read_published
from dbt.adapters.mvsink.user_sql.checks import without_end
from tests.support import incremental_modes
from tests.support.session_engine import SessionEngine

START = 1_700_000_000_000  # ms: not ahead of any clock, of which runs would warn
NOTHING = SimpleNamespace(nodes={})  # the manifest of a project without views


class QuickEngine(SessionEngine):
    """Answers what dbt's connection to the embedded Spark answers."""

    def __init__(self, session: Any):
        super().__init__(session)
        self._facts: dict[str, list[tuple[object, ...]]] = {}

    def forget(self) -> None:
        """The session's settings, catalog or schema changed."""
        self._facts, self.ran = {}, []

    def facts(self, query: str, what: str) -> list[tuple[object, ...]]:
        if query not in self._facts:
            self._facts[query] = self.query(query, what)
        return list(self._facts[query])

    def analyzed(self, query: str, what: str) -> tuple[str, list[tuple[str, str]]]:
        try:
            frame = self.session.sql(f"select * from {sql.subquery(query, '_mv_query')}")
        except Exception as error:
            raise EngineError(str(error).split("\n")[0]) from error
        columns = [(each.name, each.dataType.simpleString()) for each in frame.schema.fields]
        return str(frame._jdf.queryExecution().analyzed().toString()), columns


@dataclass
class Warehouse:
    """Models of one session, below ``root``. Every round has one time and one invocation."""

    session: Any
    root: Path
    options: Mapping[str, Any] = field(default_factory=lambda: {"verify": "never"})
    time: int = START
    names: dict[str, MvsinkRelation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.engine = QuickEngine(self.session)
        self._invocations = itertools.count()
        self.next_round()

    def next_round(self) -> None:
        self.time += 1000
        self.invocation = f"invocation {next(self._invocations)} of {id(self)}"

    def run(
        self,
        schema: str,
        name: str,
        query: str,
        references: Iterable[str] = (),
        *,
        publish: bool = True,
        kind: str = "model",
        **options: Any,
    ) -> MvsinkResponse:
        """One run of the model. ``references``: what it reads, as the query spells it, nodes of a
        ``kind``. ``publish``: its view shows it afterwards, as in every run of dbt.
        """
        config = {"materialized": "self_correcting_mv", **self.options, **options}
        parsed = ModelOptions.parse(f"{schema}.{name}", config)
        named = {each: f"{kind}.p.{each}" for each in references}
        return self._run(
            schema, name, without_end(query), named, parsed, SelfCorrectingView(), config, publish
        )

    def run_task(
        self, schema: str, name: str, text: str, source: str, *, reset: bool = False, **options: Any
    ) -> MvsinkResponse:
        """One run of a `continual_task` that reads ``source``."""
        config = {"materialized": "continual_task", **options}
        parsed = ModelOptions.parse_task(f"{schema}.{name}", config, {})
        named = {source: f"source.p.{source}"}
        return self._run(schema, name, without_end(text), named, parsed, ContinualTask(reset=reset), config)

    def _run(
        self,
        schema: str,
        name: str,
        text: str,
        references: Mapping[str, str],
        options: ModelOptions,
        strategy: Materialization,
        config: Mapping[str, Any],
        publish: bool = True,
    ) -> MvsinkResponse:
        relation = MvsinkRelation.create(schema=schema, identifier=name, type="view")
        model = f"{schema}.{name}"
        context = RunContext(
            model=model,
            relation=relation,
            node={"unique_id": f"model.p.{model}", "name": name, "config": config, "columns": {}},
            query=text,
            options=options,
            invocation=Invocation(
                id=self.invocation,
                time=self.time,
                target="dev",
                project="p",
                references=references,
                full_refresh=getattr(strategy, "reset", False),
            ),
            published=read_published(self.engine, str(relation)) if model in self.names else None,
            engine=self.engine,
            session=id(self),
            manifest=NOTHING,
            shard_root=str(self.root),
            client=ShardClient(opened=OpenShards()),
            embedded=True,
        )
        executed = phases.execute(phases.prepare(context, strategy))
        if not publish and model in self.names:
            return phases.finish(phases.Published(executed))
        published = phases.publish(executed, Docs())
        self.names[model] = relation
        return phases.finish(published)

    def rows(self, schema: str, name: str) -> Counter[Any]:
        """What a reader of the model's view gets."""
        return multiset(self.session.sql(f"select * from {self.names[f'{schema}.{name}']}").toArrow())

    def stored(self, schema: str, name: str, columns: Sequence[str]) -> Counter[Any]:
        """The same ``columns`` as the shard has them, without Spark: a tenth of the time."""
        with ShardClient(opened=OpenShards()).open_reader(f"{self.root}/{schema}/{name}") as reader:
            table = reader.snapshot((reader.state().upper.as_option() or 1) - 1)
        times = table.column(DIFF).to_pylist()
        rows = _rows(table.select(columns)) if columns else [()] * table.num_rows
        counted: Counter[Any] = Counter()
        for row, diff in zip(rows, times, strict=True):
            counted[row] += diff
        return counted

    def forget(self, schema: str, name: str) -> None:
        """The model is no longer needed."""
        relation = self.names.pop(f"{schema}.{name}", None)
        if relation is not None:
            self.session.sql(f"drop view if exists {relation}")


def multiset(table: pa.Table) -> Counter[Any]:
    """The rows, each as often as it occurs; maps without order, one zero, one NaN."""
    return Counter(_rows(table)) if table.num_columns else Counter({(): table.num_rows})


def _rows(table: pa.Table) -> list[Any]:
    columns = [[_plain(value) for value in _readable(column).to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True))


def _readable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """In types whose values Python can hold: it has no year 10000."""
    wanted = _integers(column.type)
    return column if wanted == column.type else column.cast(wanted)


def _integers(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(_integers(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_integers(kind.key_type), _integers(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _integers(each.type)) for each in kind])
    return kind


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, dict):
        return tuple(_plain(each) for each in value.values())
    if isinstance(value, list):
        pairs = [_plain(each) for each in value]
        return (
            ("map", frozenset(pairs)) if pairs and all(type(each) is tuple for each in value) else (*pairs,)
        )
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


@contextmanager
def mode(name: str) -> Iterator[None]:
    """Contents are computed from changes as `incremental_modes` has it, of however few data."""
    with pytest.MonkeyPatch.context() as patch:
        incremental_modes.install(name, patch)
        yield


def wherever() -> AbstractContextManager[None]:
    """Contents are computed from changes wherever these are known."""
    return mode("wherever")
