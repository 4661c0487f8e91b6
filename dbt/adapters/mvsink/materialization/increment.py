"""Whether a run's correction follows from the changes of its inputs: what is known of the inputs
becomes what the sink needs to compute it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dbt.adapters.mvsink.engine import Column, EngineError, parse_type
from dbt.adapters.mvsink.engine.session import session_settings
from dbt.adapters.mvsink.incremental import PADDED, Analysed, NotIncremental, analyse
from dbt.adapters.mvsink.inputs import DeltaInput, IcebergInput
from dbt.adapters.mvsink.inputs.changes import (
    QueryRows,
    at_version,
    sides_of_shard,
    sides_of_table,
    unchanged_shard,
)
from dbt.adapters.mvsink.inputs.positions import CLOCK, DELTA, ICEBERG, VERSION, Position
from dbt.adapters.mvsink.inputs.reading import files_read_otherwise
from dbt.adapters.mvsink.inputs.reads import Reads
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.inputs.sides import EvaluateFully, InputSides
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.materialization.witness import misread
from dbt.adapters.mvsink.sink import Increment, Incremental
from dbt.adapters.mvsink.user_sql.marks import query_at
from dbt.adapters.mvsink.user_sql.words import parts

SMALL_BYTES = 32 * 1024 * 1024  # of all that is read: the whole query is a job or two


# Settings that decide what a text means (quotes, precedence, whose a name is), and with which value
# it is read here.
READ_WITH = {
    "spark.sql.caseSensitive": "false",
    "spark.sql.groupByAliases": "true",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
    "spark.sql.ansi.relationPrecedence": "false",
    "spark.sql.legacy.setopsPrecedence.enabled": "false",
    "spark.sql.legacy.ctePrecedencePolicy": "CORRECTED",
    "spark.sql.legacy.parser.havingWithoutGroupByAsWhere": "false",
}


def read_otherwise(settings: Mapping[str, str]) -> str | None:
    """The setting with which Spark reads a text in another way. ``settings``: the session's."""
    return next(
        (
            f"{name} = {settings[name]}"
            for name, value in READ_WITH.items()
            if settings.get(name, value).upper() != value.upper()
        ),
        None,
    )


@dataclass(frozen=True)
class Inputs:
    """A query's inputs. ``positions``: where all that it reads stands, for contents as of ``time``
    (ms); ``recorded``: where it stood; ``reads``: what it reads besides ``references``.
    """

    context: RunContext
    references: References
    reads: Reads
    positions: Sequence[Position]
    recorded: Callable[[str], int | None]
    time: int

    def increment(self, own: int) -> Increment | EvaluateFully:
        """See `Evidence.increment`. ``own``: the bytes of the shard."""
        if refused := self._refused():
            return refused
        changed = [position for position in self.positions if not position.unchanged(self.recorded)]
        for position in changed:
            if reason := self._reason(position):
                return reason
        analysed = self._read()
        if isinstance(analysed, NotIncremental):
            return EvaluateFully(analysed.reason, usual=True)
        names = {position.name for position in changed if position.kind != CLOCK}
        sides = tuple(self._sides(analysed, names))
        refused = next((each for each in sides if isinstance(each, EvaluateFully)), None)
        if refused is not None:
            return refused
        clock = next((self.recorded(each.id) for each in changed if each.kind == CLOCK), None)
        known = tuple(each for each in sides if isinstance(each, InputSides))
        small = self._small(analysed, known, own)
        always = self.context.options.incremental is Incremental.ALWAYS
        if always or not small:  # else its query is evaluated, however it is read
            analysed = self._witnessed(analysed)
        if isinstance(analysed, NotIncremental):
            return EvaluateFully(analysed.reason, usual=True)
        return Increment(analysed, known, None if clock is None else (clock, self.time), small)

    def outlook(self, own: int) -> Increment | EvaluateFully:
        """How a change would be treated after this run, whichever input it is in: as the increment
        of a time at which nothing changed, or why the query would be evaluated.
        """
        if refused := self._refused():
            return refused
        analysed = self.analysed()
        if isinstance(analysed, NotIncremental):
            return EvaluateFully(analysed.reason, usual=True)
        unknown = self.unknown()
        if unknown and all(position.name in unknown for position in self.positions):
            return EvaluateFully(f"what changes in {' and '.join(sorted(unknown))} is not known", usual=True)
        known = tuple(each for each in self._sides(analysed, set()) if isinstance(each, InputSides))
        clock = (self.time, self.time + 1) if analysed.marks else None
        return Increment(analysed, known, clock, self._small(analysed, known, own))

    def unknown(self) -> set[str]:
        """The names of the inputs that do not tell what changes in them."""
        return {each.name for each in self.positions if each.problem or not self._followed(each)}

    def analysed(self) -> Analysed | NotIncremental:
        """The query, read as one whose changes can be derived, as Spark reads it."""
        read = self._read()
        return read if isinstance(read, NotIncremental) else self._witnessed(read)

    def _read(self) -> Analysed | NotIncremental:
        if (name := read_otherwise(session_settings(self.context.engine))) is not None:
            return NotIncremental(f"with {name} Spark reads its text in another way")
        options = self.context.options
        return analyse(
            query_at(self.context.query, self.time),
            self._columns_of,
            deterministic_functions=options.deterministic_functions.names,
        )

    def _witnessed(self, read: Analysed) -> Analysed | NotIncremental:
        reason = misread(self.context, query_at(self.context.query, self.time), read, self.recorded)
        return NotIncremental(reason) if reason else read

    def _refused(self) -> EvaluateFully | None:
        """Why the query is evaluated, whatever its text says and whatever changed."""
        if self.context.options.incremental is Incremental.NEVER:
            return EvaluateFully("incremental: never", expected=True, usual=True)
        if (twice := self._named_twice()) is not None:
            return EvaluateFully(f"it reads {twice} in two ways, or from two catalogs", usual=True)
        return None

    def _named_twice(self) -> str | None:
        """A name whose last two parts are those of another input, too: either may be meant."""
        names = Counter(parts(position.name)[-2:] for position in self.positions)
        return next((".".join(name) for name, times in names.items() if times > 1), None)

    def _reason(self, position: Position) -> EvaluateFully | None:
        """Why the change of an input that is at ``position`` is not known."""
        if position.problem:
            return EvaluateFully(position.problem, usual=True)
        if self.recorded(position.id) is None:
            return EvaluateFully(
                f"no earlier position of {position.name} is recorded", expected=True, usual=True
            )
        if position.reshaped(self.recorded):
            return EvaluateFully(f"the columns of {position.name} changed", expected=True)
        if self._followed(position):
            return None
        why = self._view_above(position.name)
        return EvaluateFully(f"{position.name} changed, and what changed in it is not known{why}", usual=True)

    def _followed(self, position: Position) -> bool:
        """Whether the input keeps a history of its changes, which the query reads it by."""
        if position.kind == CLOCK or position.name in self.references.shards:
            return True
        below = {name for reads in self.reads.below.values() for name in (*reads.every_table, *reads.below)}
        pinned = self._pinned(position.name) is not None
        return position.kind in (DELTA, ICEBERG) and position.name not in below and pinned

    def _view_above(self, name: str) -> str:
        """Why the view through which the query reads ``name`` is not a part of it, as a clause."""
        refused = {} if self.context.views is None else self.context.views.refused
        for view, reads in self.reads.below.items():
            reason = refused.get(parts(view)[-2:])
            if reason and (name == view or name in reads.every_table or name in reads.below):
                return f": it is read through the view {view}, and {reason}"
        return ""

    def _columns_of(self, name: str) -> list[tuple[str, str]] | None:
        """See `resolve.ColumnsOf`. Only what the run knows all about has columns."""
        key = parts(name)
        reference = next((each for each in self.references.shards.values() if parts(each.name) == key), None)
        if reference is not None:
            return reference.described_columns
        known = {parts(each)[-2:] for each in (*self.reads.tables, *self.reads.views)}
        if len(key) < 2 or key[-2:] not in known:
            return None
        try:
            return self._declared(name, self.context.engine.columns(f"select * from {name}"))
        except EngineError:
            return None

    def _declared(self, name: str, columns: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """The same with CHAR(n) where it is declared: of a query Spark calls it STRING, and pads it
        where it is compared by `=`, but not by IN, or once it is stored elsewhere.
        """
        if not any("string" in kind for _, kind in columns):
            return columns
        rows = self.context.engine.query(f"describe {name}", "describe")
        declared = {str(row[0]).lower(): str(row[1]) for row in reversed(rows)}
        padded = {column: kind for column, kind in declared.items() if PADDED.search(kind)}
        return [(column, padded.get(column.lower(), kind)) for column, kind in columns]

    def _sides(self, analysed: Analysed, changed: set[str]) -> Iterator[InputSides | EvaluateFully]:
        """What the query's relations are read as."""
        by_parts = {parts(position.name)[-2:]: position for position in self.positions}
        for name in analysed.relations:
            key = parts(name)
            position = by_parts.get(key[-2:])
            reference = next(
                (each for each in self.references.shards.values() if parts(each.name) == key), None
            )
            if reference is not None and position is not None:
                yield self._shard(name, position, changed)
            elif position is not None and (version := self._pinned(position.name)) is not None:
                yield self._table(name, position, version, changed)
            else:
                rows = QueryRows(f"select * from {name}")
                yield InputSides(name, self._columns(name), rows, rows)

    def _shard(self, name: str, position: Position, changed: set[str]) -> InputSides | EvaluateFully:
        reference, now = self.references.shards[position.name], position.number
        before = self.recorded(position.id)
        if position.name not in changed or before is None:
            return unchanged_shard(name, reference, now)
        return sides_of_shard(name, reference, before, now, self.recorded(position.id + VERSION))

    def _table(
        self, name: str, position: Position, version: int, changed: set[str]
    ) -> InputSides | EvaluateFully:
        before = self.recorded(position.id)
        if position.name not in changed or before is None:
            rows = at_version(name, version)
            return InputSides(name, self._columns(name), rows, rows)
        if position.kind == ICEBERG:
            return sides_of_table(name, IcebergInput(name, self.context.engine), before, version)
        if version < before:
            return EvaluateFully(f"{name} is read at an earlier version than before")
        if setting := files_read_otherwise(session_settings(self.context.engine)):
            return EvaluateFully(
                f"with {setting} Spark reads the data files of {name} otherwise than the table"
            )
        delta = DeltaInput(position.location, name, self.context.storage_options)
        return sides_of_table(name, delta, before, version)

    def _columns(self, name: str) -> tuple[Column, ...]:
        return tuple(Column(each, parse_type(kind, each)) for each, kind in self._columns_of(name) or ())

    def _pinned(self, name: str) -> int | None:
        """The version at which the table is read."""
        pinned = {parts(key)[-2:]: version for key, version in self.references.pinned.items()}
        return pinned.get(parts(name)[-2:])

    def _small(self, analysed: Analysed, sides: Sequence[InputSides], own: int) -> bool:
        """Whether the columns that the query uses, and its own ``own`` bytes, are few bytes."""
        sizes = {parts(position.name)[-2:]: position.size for position in self.positions}
        total = float(own)
        for each in sides:
            size, used = sizes.get(parts(each.name)[-2:]), analysed.relations[each.name]
            if size is None:
                return False
            total += size * len(used) / max(len(each.columns), 1)
        return total <= SMALL_BYTES
