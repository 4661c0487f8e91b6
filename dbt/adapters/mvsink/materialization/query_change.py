"""Whether a run's correction follows from the changes of its inputs: turns what is known about the
inputs into what the sink needs to compute it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import arrow_schema
from dbt.adapters.mvsink.engine.session import session_settings
from dbt.adapters.mvsink.incremental import Analysed, NotIncremental, analyse, filters
from dbt.adapters.mvsink.inputs.position import CLOCK, InputSides
from dbt.adapters.mvsink.inputs.query_inputs import QueryInputs
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.materialization.witness import misread
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.sink import Increment, Incremental, Volume
from dbt.adapters.mvsink.user_sql.marks import query_at
from dbt.adapters.mvsink.user_sql.words import parts

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
    """A setting of the session's ``settings`` that makes Spark read a text in another way."""
    return next(
        (
            f"{name} = {settings[name]}"
            for name, value in READ_WITH.items()
            if settings.get(name, value).upper() != value.upper()
        ),
        None,
    )


@dataclass(frozen=True)
class QueryChange:
    """The change of a query's contents as of ``time`` (ms), as far as it follows from the changes
    of its ``inputs``.
    """

    context: RunContext
    inputs: QueryInputs
    time: int

    def increment(self, own: Volume) -> Increment | EvaluateFully:
        """See `Evidence.increment`. ``own`` are the shard's files."""
        if (twice := self.inputs.named_twice()) is not None:
            return EvaluateFully(Why.NAMED_TWICE, twice)
        changed = self.inputs.changed
        for position in changed:
            if reason := self.inputs.why_unknown(position):
                return reason
        analysed = self._read()
        if isinstance(analysed, NotIncremental):
            return EvaluateFully(Why.NOT_INCREMENTAL, analysed.reason)
        names = {position.name for position in changed if position.kind != CLOCK}
        if missed := _missed(names, analysed):
            return EvaluateFully(Why.NOT_READ_HERE, missed)
        sides = tuple(self.inputs.sides(analysed.relations, names))
        refused = next((each for each in sides if isinstance(each, EvaluateFully)), None)
        if refused is not None:
            return refused
        clock = next((self.inputs.recorded(each.id) for each in changed if each.kind == CLOCK), None)
        known = tuple(each for each in sides if isinstance(each, InputSides))
        small, tiny, volume = self._small(analysed, known, own)
        always, confirmed = self.context.options.incremental is Incremental.ALWAYS, False
        if always or not tiny:  # else its query is evaluated, however it is read
            confirmed = True
            analysed = self._witnessed(analysed)
        if isinstance(analysed, NotIncremental):
            return EvaluateFully(Why.NOT_INCREMENTAL, analysed.reason)
        # a reading that Spark has not confirmed says nothing of what the query uses
        used = tuple(_used_changes(each, analysed) for each in known) if confirmed else known
        unread = bool(changed) and clock is None and all(each.change is None for each in used)
        times = None if clock is None else (clock, self.time)
        return Increment(analysed, used, times, small, tiny, volume, unread=unread)

    def outlook(self, own: Volume) -> Increment | EvaluateFully:
        """How a later change of any input would be treated: the increment of a time at which
        nothing changed, or why the query would be evaluated.
        """
        if (twice := self.inputs.named_twice()) is not None:
            return EvaluateFully(Why.NAMED_TWICE, twice)
        analysed = self.analysed()
        if isinstance(analysed, NotIncremental):
            return EvaluateFully(Why.NOT_INCREMENTAL, analysed.reason)
        unknown = self.inputs.unknown()
        if unknown and all(position.name in unknown for position in self.inputs.positions):
            return EvaluateFully(Why.NEVER_CHANGES, " and ".join(sorted(unknown)))
        known = tuple(
            each for each in self.inputs.sides(analysed.relations, set()) if isinstance(each, InputSides)
        )
        clock = (self.time, self.time + 1) if analysed.marks else None
        return Increment(analysed, known, clock, *self._small(analysed, known, own))

    def analysed(self) -> Analysed | NotIncremental:
        """The query as one whose changes can be derived, if Spark reads it in the same way."""
        read = self._read()
        return read if isinstance(read, NotIncremental) else self._witnessed(read)

    def _read(self) -> Analysed | NotIncremental:
        if (name := read_otherwise(session_settings(self.context.engine))) is not None:
            return NotIncremental(f"with {name} Spark reads its text in another way")
        options = self.context.options
        return analyse(
            query_at(self.context.query, self.time),
            self.inputs.columns_of,
            deterministic_functions=options.deterministic_functions.names,
        )

    def _witnessed(self, read: Analysed) -> Analysed | NotIncremental:
        reason = misread(self.context, query_at(self.context.query, self.time), read, self.inputs.recorded)
        return NotIncremental(reason) if reason else read

    def _small(
        self, analysed: Analysed, sides: Sequence[InputSides], own: Volume
    ) -> tuple[bool, bool, Volume | None]:
        """Whether the columns that the query uses, with its ``own`` shard, are few rows and few
        bytes, and whether they are tiny; and how much they are.
        """
        sizes = {parts(position.name)[-2:]: position.size for position in self.inputs.positions}
        size, rows = float(own.bytes), own.rows
        for each in sides:
            whole, used = sizes.get(parts(each.name)[-2:]), analysed.relations[each.name]
            if whole is None:
                return False, False, None
            size += whole * len(used) / max(len(each.columns), 1)
            rows += each.rows or 0
        small = size <= limits.SMALL_BYTES and rows <= limits.SMALL_ROWS
        tiny = small and size <= limits.TINY_BYTES and rows <= limits.TINY_ROWS
        return small, tiny, Volume(round(size), rows)


def _used_changes(each: InputSides, analysed: Analysed) -> InputSides:
    """``each`` without its change if that is known to be none of the columns and rows that the
    query may use. Only a change that this process reads is checked. What is only inserted does
    not cancel out.
    """
    names, wanted = analysed.relations[each.name], filters(analysed).get(each.name)
    if each.change is None or each.read_change is None or (each.only_inserts and wanted is None):
        return each
    used = tuple(column for column in each.columns if column.name.lower() in names)
    net = each.read_change(arrow_schema(used), None if wanted is None else wanted.arrow(used))
    return each if net is None or len(net) else replace(each, change=None, read_change=None, updates=0)


def _missed(changed: Collection[str], analysed: Analysed) -> str | None:
    """An input that ``analysed`` lacks although Spark says that the query reads it."""
    read = {parts(name)[-2:] for name in analysed.relations}
    return next((name for name in sorted(changed) if parts(name)[-2:] not in read), None)
