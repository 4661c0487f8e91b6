"""Import: the first contents of a view are the rows of the table that has its name, so its first
run writes only the difference, which is what was wrong in the table.

```
check     nothing is written: there is a table, its columns fit, the name that it gets is free
begin     one commit of the table's rows, read once, a millisecond before the run's time
then      the run like any other: what the query says, compared with these rows
publish   the table gets its other name, and the view the table's
```

The table's files are only read. A run that ends before it publishes leaves the table as it is, and
the next `mvsink import` begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.engine import Column, Engine, sql
from dbt.adapters.mvsink.engine.exact_casts import cast_is_exact
from dbt.adapters.mvsink.engine.types import SparkType, parse_type
from dbt.adapters.mvsink.exceptions import CannotImport, InvalidOption
from dbt.adapters.mvsink.materialization.context import ImportSource, RunContext
from dbt.adapters.mvsink.materialization.options.gate_options import accepts
from dbt.adapters.mvsink.shard import ReadPoints, ShardState
from dbt.adapters.mvsink.shard_sql.properties import Imported, imported_from
from dbt.adapters.mvsink.sink import Driver, Gate, Incremental, NoEvidence, Outcome, SinkRequest
from dbt.adapters.mvsink.sink.request import Independent

VARIABLE = "mvsink_import"
SUFFIX = "_before_import"  # of the name that the table gets
TABLE = "table"  # dbt's type of a relation
VIEW = "self_correcting_mv"


@dataclass(frozen=True)
class Existing:
    """What is in the catalog: ``name`` as SQL names it, dbt's type ``kind``, and whether it shows a
    shard.
    """

    name: str
    kind: str
    shown: bool = False


def source_of(
    wanted: Any,
    node: Mapping[str, Any],
    model: str,
    identifier: str,
    find: Callable[[str], Existing | None],
) -> ImportSource | None:
    """What the variable ``wanted`` has the model import: None if it does not name the model. It is
    a model's name, a list of them, or relations by model's name. ``find`` gives what has an
    identifier in the model's schema. Raises `InvalidOption`, `CannotImport`.
    """
    names = list(wanted) if isinstance(wanted, Mapping) else wanted
    try:
        named = accepts(names, str(node["unique_id"]), str(node["name"]), model)
    except InvalidOption as error:
        raise InvalidOption(model, VARIABLE, wanted, "a model's name, or a list of them") from error
    if not named:
        return None
    if isinstance(wanted, Mapping):
        relations = {str(name): str(relation) for name, relation in wanted.items()}
        return ImportSource(relations.get(str(node["unique_id"])) or relations[str(node["name"])], "")
    return _table(model, identifier, find)


def _table(model: str, identifier: str, find: Callable[[str], Existing | None]) -> ImportSource:
    """The table that has the model's name, or that an import which did not end has renamed. Raises
    `CannotImport`.
    """
    kept = f"{identifier}{SUFFIX}"
    existing, renamed = find(identifier), find(kept)
    if existing is None and renamed is not None and renamed.kind == TABLE and not renamed.shown:
        return ImportSource(renamed.name, kept)
    if existing is None:
        raise CannotImport(model, "there is no table of this name; a plain `dbt run` loads the model")
    if existing.shown:
        raise CannotImport(model, "it is maintained already")
    if existing.kind != TABLE:
        raise CannotImport(model, f"{existing.name} is a {existing.kind}, which has no rows of its own")
    if renamed is not None:
        raise CannotImport(model, f"the table would get the name {kept}, which is taken: rename or drop that")
    return ImportSource(existing.name, kept)


def check_importing(context: RunContext) -> None:
    """Raises `CannotImport` for a run that cannot import, whatever the table holds."""
    invocation, kind = context.invocation, str(context.node["config"].get("materialized"))
    problem = ""
    if kind != VIEW:
        problem = f"it is a {kind}, which has no rows that its query gives"
    elif not context.options.refresh.on_commit:
        problem = (
            "it has a schedule, by which no refresh may be due: import it without `refresh`, then add that"
        )
    elif context.read_only:
        problem = "the run is read-only; `mvsink import --dry-run` says what an import would find"
    elif invocation.empty or invocation.sampled:
        problem = "with --empty or --sample the query does not give all rows"
    if problem:
        raise CannotImport(context.model, problem)


def contents_query(model: str, source: ImportSource, engine: Engine, columns: Sequence[Column]) -> str:
    """The table's rows in the view's ``columns``: those that the table lacks are NULL. Raises
    `CannotImport` if they do not fit.
    """
    present = {
        name.lower(): (name, parse_type(text, name))
        for name, text in engine.columns(f"select * from {source.name}")
    }
    if not any(column.name.lower() in present for column in columns):
        raise CannotImport(model, f"{source.name} has none of its columns: {', '.join(present)}")
    wrong = [
        f"{column.name} is {present[column.name.lower()][1].text} there and {column.type.text} here"
        for column in columns
        if column.name.lower() in present and not cast_is_exact(present[column.name.lower()][1], column.type)
    ]
    if wrong:
        raise CannotImport(
            model,
            f"types of {source.name} do not fit: {'; '.join(wrong)}. Cast in the query to the table's types first",
        )
    items = [_item(column, present.get(column.name.lower())) for column in columns]
    return f"select {', '.join(items)} from {source.name}"


def _item(column: Column, stored: tuple[str, SparkType] | None) -> str:
    value = "null" if stored is None else sql.identifier(stored[0])
    return f"cast({value} as {column.type.spelled}) {sql.identifier(column.name)}"


class AsWritten:
    """References of a query in which nothing is replaced."""

    def read_at(self, query: str, time: int) -> str:
        return query

    def points(self, time: int) -> ReadPoints:
        return ReadPoints()


def begin(driver: Driver, source: ImportSource, query: str) -> Outcome:
    """Make the rows of ``query`` the contents of the shard of ``driver``, as of a millisecond
    before its run: in a new generation, if an earlier import was not completed. Raises
    `CannotImport` if the shard has a history of other runs, which that would end.
    """
    request, state = driver.request, driver.handle.state()
    again = state.readable and state.dropped is None
    if again and not _only_imported(state):
        raise CannotImport(
            request.model,
            f"its shard {driver.handle.uri} has contents and a history, which an import would end: `dbt run` goes on with it, "
            "`mvsink drop` drops it",
        )
    driver.handle.set_properties(Imported(source.name, source.kept, request.time - 1).properties())
    first = _request(request, source, query, again=again)
    outcome = Driver(first, driver.handle, driver.engine, driver.watch).run()
    failpoints.reach("imported")
    return outcome


def _only_imported(state: ShardState) -> bool:
    """Whether no run came after an import and its own run, which is a millisecond later."""
    imported = imported_from(state)
    return imported is not None and state.upper.stored() <= imported.time + 2


def _request(request: SinkRequest, source: ImportSource, query: str, *, again: bool) -> SinkRequest:
    return replace(
        request,
        query=query,
        time=request.time - 1,
        references=AsWritten(),
        assertions=(),
        full_refresh=again,
        redefined=False,
        gate=Gate(),
        evidence=NoEvidence(),
        verify=False,
        incremental=Incremental.NEVER,
        definition="",
        independent=Independent(),
        purpose=f"imported from {source.name}",
    )
