"""A correction from the changes of the inputs, without evaluating the query for all rows.

1. *Changes* of the inputs are staged (`staged`).
2. *Delta*: the query of the change (`incremental`) is evaluated over these changes and over the
   input rows that can matter (`restricted`), and staged as a batch. Where the query groups by keys,
   the keys whose rows may differ are taken from the changes, or staged by a query first. Then the
   query's rows for these keys are compared with the shard's. For a query that adds up, these rows
   are the shard's rows plus the sums over the change. Few rows are compared in this process
   (`local`), more by Spark.
3. *Look up*: every hash of the batch is looked up in the shard (`staged`). If a row to delete is
   not there, the shard is not what the progress says, and the query is evaluated.

In a batch a hash stands for one row, and for at most one record of the base. Without reading rows
it is not known whether another row of the shard has the same hash. So a row whose hash the shard
holds is staged without a hash, unless all rows with that hash are deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pyarrow as pa

from dbt.adapters.mvsink import failpoints, limits
from dbt.adapters.mvsink.engine import Column, EngineError, arrow_schema, shared_files, sql
from dbt.adapters.mvsink.engine.whole_rows import net
from dbt.adapters.mvsink.incremental import (
    WRONG,
    Adding,
    KnownScope,
    NotIncremental,
    Plan,
    Scoped,
    adding_of,
    basis,
    clock_probe,
    exact_sums,
)
from dbt.adapters.mvsink.local.difference import Stored, difference
from dbt.adapters.mvsink.local.rows import fits_locally, left_to_spark, local_row_limit
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import StagedDirectory, physical_schema
from dbt.adapters.mvsink.shard_sql import Counts
from dbt.adapters.mvsink.sink.correction import BASE, Correction, Desired, persisted
from dbt.adapters.mvsink.sink.decide import Bounds, Increment
from dbt.adapters.mvsink.sink.restricted import RestrictedInputs
from dbt.adapters.mvsink.sink.round import Round, Written
from dbt.adapters.mvsink.sink.staged import StagedChanges, StagedKeys, fit, without_hashes
from dbt.adapters.mvsink.sink.write import Write

log = logging.getLogger("mvsink.sink.write")


def stage_change(write: Write, increment: Increment, at: Round, bounds: Bounds) -> Written | EvaluateFully:
    """The correction that `Write.stage` would stage, if it follows from ``increment``, within
    ``bounds``.
    """
    with ExitStack() as resources, shared_files(write.engine) as files:
        delta = _Delta(write, bounds, at, files, resources)
        try:
            changes = StagedChanges.stage(write, increment, resources, bounds)
            if isinstance(changes, EvaluateFully):
                return changes
            failpoints.reach("changes staged")
            planned = delta.planned(increment, changes)
            if isinstance(planned, EvaluateFully):
                return planned.after(changes.share)
            written: Written | EvaluateFully | None = delta.few_sums(planned.plan)
            if written is None:
                compared = delta.compared(planned)
                if isinstance(compared, EvaluateFully):
                    return compared.after(changes.share)
                written = delta.staged(delta.correction(compared), planned.plan)
            if isinstance(written, EvaluateFully):
                return written.after(changes.share)
            return replace(written, share=changes.share)
        except EngineError as error:  # an old state may fail where the new one does not
            log.info("%s: the query of the change failed: %s", write.model, error)
            return EvaluateFully(Why.QUERY_FAILED)


@dataclass(frozen=True)
class _Planned:
    """``known`` is a scope that needs no query for its keys; None if there is none."""

    plan: Plan
    changes: StagedChanges
    known: KnownScope | None = None


@dataclass(frozen=True)
class _Compared:
    """The rows of ``desired``, and the shard's rows in scope to subtract: ``here`` if they are few,
    else those of the query that ``stored`` gives (None if there are none).
    """

    desired: Desired
    here: Stored | None = None
    stored: Callable[[], str | None] = lambda: None


@dataclass(frozen=True)
class _Delta:
    """One correction. ``files`` names the files that its statements read; ``resources`` are
    released with it.
    """

    write: Write
    bounds: Bounds
    at: Round
    files: sql.Shared
    resources: ExitStack

    def planned(self, increment: Increment, changes: StagedChanges) -> _Planned | EvaluateFully:
        """The plan. It has `Plan.adding` only if that must be used: the sides that were read may
        not suffice for another way.
        """
        analysed, clock = increment.analysed, increment.clock
        if clock is not None and (probe := clock_probe(analysed, clock)) is not None:
            [[same]] = self.write.engine.query(probe, "clock")
            clock = None if same else clock
        adding = None if self.at.shard.empty else adding_of(analysed, changes.by_name, clock)
        adds = adding is not None and adds_up(adding, self.at.desired.columns)
        based = basis(analysed, changes.by_name, clock, nulls=True, added=adds, reached=True)
        inputs = RestrictedInputs(self.write, increment, changes.by_name, based.needed, self.resources)
        sides = inputs.sides(self.files)
        plan = based.plan(sides)
        if isinstance(plan, NotIncremental):
            return EvaluateFully(Why.NOT_INCREMENTAL, plan.reason)
        return _Planned(plan if adds else replace(plan, adding=None), changes, based.known_scope(sides))

    def few_sums(self, plan: Plan) -> Written | None:
        """The correction of a model with few sums, by one query that adds the sums over the change
        to all of the shard's. Nothing to write if there is no change. None if the sums are not few
        (`Write.whole_rows_locally`).
        """
        if plan.terms == 0:
            return Written(None, Counts(), incremental=True)
        shard, columns = self.at.shard, self.at.desired.columns
        stored, adding = persisted(shard), plan.adding
        if stored is None or adding is None:
            return None
        shown = self.files.of(stored, few=fits_locally(shard.files, shard.columns))
        desired = replace(self.at.desired, query=added(adding, columns, adding.query, shown))
        written = self.write.whole_rows_locally(replace(self.at, desired=desired), self.files)
        if written is None:
            return None
        if written.batch is not None:
            failpoints.reach("staged")
        return replace(written, evaluated_once=False, incremental=True)

    def compared(self, planned: _Planned) -> _Compared | EvaluateFully:
        """What is to be compared."""
        plan, desired = planned.plan, self.at.desired
        known = None if planned.known is None else self._known(planned.known, planned)
        if known is not None:
            return known
        if plan.adding is not None:
            return self._added(plan.adding)
        if plan.scoped is not None:
            return self._scoped(plan.scoped)
        assert plan.query is not None
        empty = physical_schema(self.write.handle.schema).empty_table()
        # each may change several rows
        few = 0 < planned.changes.rows <= local_row_limit(desired.columns) // 2
        none = Stored(empty, empty) if few else None
        return _Compared(replace(desired, query=plan.query, signed=True), none)

    def _scoped(self, scoped: Scoped) -> _Compared | EvaluateFully:
        """The rows in scope, new less the shard's."""
        shard, desired = self.at.shard, self.at.desired
        if scoped.keys is None:
            if refused := self.bounds.scope(scoped, shard.rows):
                return refused
            stored = persisted(shard)
            shown = None if stored is None else self.files.of(stored)
            return _Compared(replace(desired, query=scoped.new), None, lambda: shown)
        # of a few groups, too, most have to be computed again from most of the inputs
        staged = self.write.stager.stage(self.files.around(scoped.keys), "keys")
        keys = self._keys(staged, shard.rows)
        if isinstance(keys, EvaluateFully):
            return keys
        names = {f"_mv_k{number}": name for number, name in enumerate(scoped.columns)}
        new = scoped.new.replace(scoped.keys, keys.query(self.files))
        return _Compared(
            replace(desired, query=new),
            keys.rows_in_scope(shard, names),
            lambda: keys.in_scope(shard, names, self.files),
        )

    def _known(self, known: KnownScope, planned: _Planned) -> _Compared | None:
        """The comparison in a scope whose keys are values of the changes. None if there are many
        such keys, or many rows of the shard that have one: a query may find fewer.
        """
        adding, scoped, shard = planned.plan.adding, known.scoped, self.at.shard
        values = planned.changes.values(known.keys) if self.write.engine.cores_here() else None
        if values is None or scoped.keys is None:
            return None
        keys = StagedKeys.of(self.write, values, nulls=known.nulls)
        self.resources.callback(keys.staged.delete)
        if self.bounds.keys(keys.rows, self._groups(adding)):
            return None
        [name] = scoped.columns
        names = {"_mv_k0": name}
        here = keys.rows_in_scope(shard, names)
        if here is None:
            return None
        if adding is not None:  # a row that the change has no sums for stays as it is
            new = added(adding, self.at.desired.columns, adding.query, self._copied(here))
        else:
            new = scoped.new.replace(scoped.keys, keys.query(self.files))
        desired = replace(self.at.desired, query=new)
        return _Compared(desired, here, lambda: keys.in_scope(shard, names, self.files))

    def _groups(self, adding: Adding | None) -> int:
        """The number of groups, of which some are computed again or get other sums."""
        rows = self.at.shard.rows
        return rows if adding is None else max(rows, limits.MANY_ROWS)

    def _added(self, adding: Adding) -> _Compared | EvaluateFully:
        """The shard's rows plus the sums over the change, compared with the shard's rows."""
        shard = self.at.shard
        staged = self.write.stager.stage(self.files.around(adding.query), "keys")
        change = self._keys(staged, self._groups(adding))
        if isinstance(change, EvaluateFully):
            return change
        names = {name: name for name in adding.keys}
        here = change.rows_in_scope(shard, names)
        stored = change.in_scope(shard, names, self.files) if here is None else self._copied(here)
        new = added(adding, self.at.desired.columns, change.query(self.files), stored)
        desired = replace(self.at.desired, query=new)
        return _Compared(desired, here, lambda: change.in_scope(shard, names, self.files))

    def _copied(self, stored: Stored) -> str | None:
        """The query of rows that were read here; None if there are none."""
        if stored.rows == 0:
            return None
        staged = self.write.handle.write_staged(pa.concat_tables([stored.base, stored.others]))
        self.resources.callback(staged.delete)
        return self.files.of(f"select * from {sql.parquet_in(staged.uri)}", few=True)

    def _keys(self, staged: StagedDirectory, rows: int) -> StagedKeys | EvaluateFully:
        """The staged rows, one for each key that may differ, if they are few among ``rows``."""
        self.resources.callback(staged.delete)
        keys = StagedKeys(self.write, staged)
        return self.bounds.keys(keys.rows, rows) or keys

    def correction(self, compared: _Compared) -> Correction | pa.Table:
        """The correction, or the updates themselves if this process can compute them."""
        columns, here = compared.desired.columns, compared.here
        rows = compared.desired.hashed()
        if here is not None:
            items = f"{sql.columns(column.name for column in columns)}, {ERROR}, {HASH}, {DIFF}"
            query = self.files.around(f"select {items} from (\n{rows}\n)")
            staged = self.write.stager.stage(query, "write")
            self.resources.callback(staged.delete)
            updates = self._difference(staged, here)
            if updates is not None:
                return updates
            rows = self.files.of(f"select *, 0L {BASE} from {sql.parquet_in(staged.uri)}")
        correction = Correction(columns, 0).advance_since(self.at.time).insert(rows)
        negated = compared.stored()
        return correction if negated is None else correction.insert_negated(negated)

    def _difference(self, staged: StagedDirectory, stored: Stored) -> pa.Table | None:
        """The staged rows less ``stored``, computed here; None if that is left to Spark."""
        columns = self.at.desired.columns
        with self.write.watch("write"), left_to_spark(self.write.model):
            if staged.rows() > local_row_limit(columns):
                return None
            more = [(ERROR, pa.string()), (HASH, pa.int64()), (DIFF, pa.int64())]
            schema = pa.schema([*arrow_schema(columns), *more])
            return difference(self.write.handle.read_staged(staged, schema), stored, self.at.time)
        return None

    def staged(self, correction: Correction | pa.Table, plan: Plan) -> Written | EvaluateFully:
        """The correction as a batch, if it fits the shard."""
        if isinstance(correction, Correction):
            updates = correction.updates_before(self.at.description.upper.stored())
            staged = self.write.stager.stage(self.files.around(updates), "write")
        else:
            with self.write.watch("write"):
                staged = self.write.handle.write_staged(correction)
        # with the shard's rows, so that what it deletes is there
        compared = plan.scoped is not None or plan.adding is not None
        try:
            if staged.rows() == 0:
                staged.delete()
                return Written(None, Counts(), incremental=True)
            fits = fit(self.write, staged, self.at.shard)
            if fits.missing or (fits.unhashed and not compared):
                staged.delete()
                return EvaluateFully(Why.ROW_MISSING if fits.missing else Why.ROW_AMBIGUOUS)
            if fits.ambiguous:
                unsure = staged
                staged = without_hashes(self.write, unsure, self.at.desired.columns, self.at.shard, fits)
                unsure.delete()
        except BaseException:
            staged.delete()
            raise
        written = self.write.adopted(staged, self.at.description)
        failpoints.reach("staged")
        return replace(written, incremental=True)


# sums over a change, added to the rows of a shard that holds sums (`incremental.adding`)


def adds_up(adding: Adding, columns: Sequence[Column]) -> bool:
    """Whether sums of these types keep all digits of the values that they add."""
    types = {column.name.lower(): column.type.arrow() for column in columns}
    decimals = (types[name] for name in adding.sums if pa.types.is_decimal(types[name]))
    return all(exact_sums(kind.precision, kind.scale) for kind in decimals)


def added(adding: Adding, columns: Sequence[Column], change: str, stored: str | None) -> str:
    """The new rows for the keys of ``change``, a query with the rows of `Adding.query`. ``stored``
    has the shard's updates for these keys.

    The query fails where the sums cannot be known: then the query of the sums must be evaluated.
    """
    name_of = {column.name.lower(): sql.identifier(column.name) for column in columns}
    items = sql.columns(column.name for column in columns)
    terms = [f"select {items}, {WRONG} from (\n{change}\n)"]
    if stored is not None:
        nulls = [f"{name_of[count]} > 0 and {name_of[name]} is null" for name, count in adding.sums.items()]
        wrong = " or ".join(f"({each})" for each in (f"{DIFF} <> 1", f"{ERROR} is not null", *nulls))
        rows = net(columns, [ERROR], stored, "<> 0")
        terms.append(f"select {items}, if({wrong}, 1, 0) {WRONG} from (\n{rows}\n)")
    keys = [name_of[key] for key in adding.keys]
    sums = [f"sum({name}) {name}" for column, name in name_of.items() if column not in adding.keys]
    grouped = f" group by {', '.join(keys)}" if keys else ""
    summed = (
        f"select {', '.join([*keys, *sums])}, max({WRONG}) {WRONG} from (\n{sql.union_all(terms)}\n){grouped}"
    )
    shown = ", ".join(_shown(adding, column, name_of) for column in columns)
    rows = name_of[adding.rows]
    wrong = " or ".join([f"{WRONG} > 0", f"{rows} < 0", *(_impossible(adding, name_of))])
    kept = f"{rows} <> 0" if keys else "true"
    return f"select {shown} from (\n{summed}\n) where if({wrong}, raise_error('sums that do not add up'), {kept})"


def _shown(adding: Adding, column: Column, name_of: Mapping[str, str]) -> str:
    """The column as the shard shows it: a sum of no values is NULL, and a sum has the shard's
    type.
    """
    name = sql.identifier(column.name)
    count = adding.sums.get(column.name.lower())
    if count is None:
        return name
    return f"if({name_of[count]} > 0, cast({name} as {column.type.spelled}), null) {name}"


def _impossible(adding: Adding, name_of: Mapping[str, str]) -> Iterator[str]:
    for count in adding.counts:
        if count != adding.rows:
            yield f"{name_of[count]} < 0 or {name_of[count]} > {name_of[adding.rows]}"
