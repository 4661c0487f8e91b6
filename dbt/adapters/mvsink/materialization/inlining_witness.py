"""Whether a query keeps its meaning when the texts of dbt's views take the places of their names.

    select id from shop.large       -- a view
    select id from (select * from shop.orders where amount > 10)

Spark itself puts a view's query in the place of its name. So it must make the same plan of both
texts, once views are expanded and the plan is optimized. This is asked once per definition: the
number of what was compared is committed with the contents' progress. Nothing is run.

A query whose plan differs each time (`rand()`) cannot be compared, and neither can one that Spark
finds to have no rows, because that is the same plan for all. The views in the first stay views; the
second is asked about again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from dbt.adapters.mvsink.engine import Engine, EngineError
from dbt.adapters.mvsink.engine.plan_text import optimized_plan
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.materialization.witness import asked_of
from dbt.adapters.mvsink.per_invocation import PerInvocation
from dbt.adapters.mvsink.shard import ShardError
from dbt.adapters.mvsink.user_sql.marks import query_at

RULES = "1"  # another number: what was compared before proves nothing
SHARED, MISREAD = "views/shared", "views/misread"
OF_A_TASK = "views_shared"  # a property of its output
OTHERWISE = "Spark reads the query otherwise with its text in the place of its name"
EMPTY = "LocalRelation <empty>"

log = logging.getLogger("mvsink.witness")
_verdicts: PerInvocation[dict[str, tuple[str, int]]] = PerInvocation(dict)  # by the query as it is written


class Reading(str, Enum):
    """What Spark says of two texts."""

    SAME = "same"
    OTHER = "other"
    UNKNOWN = "unknown"  # both have no rows, whatever they read


def keeps_meaning(
    context: RunContext, query: str, inlined: str, recorded: Callable[[str], int | None]
) -> bool:
    """Whether Spark reads ``inlined`` as it reads ``query``. ``recorded`` is the progress of the
    model's contents.
    """
    number = asked_of(context.engine, RULES, query_at(query, 0), query_at(inlined, 0))
    known = _verdicts.of(context.invocation.id)
    for name in (SHARED, MISREAD):
        if recorded(name) == number:
            known[query] = name, number
            return name == SHARED
    reading = compared(context.engine, query_at(query, 1), query_at(inlined, 1))
    if reading is Reading.OTHER:
        log.info("%s\n  the query: %s\n  with its views: %s", OTHERWISE, query, inlined)
    if reading is not Reading.UNKNOWN:
        known[query] = SHARED if reading is Reading.SAME else MISREAD, number
    return reading is not Reading.OTHER


@dataclass
class TaskReadings:
    """The views that a task reads. With ``known``, an earlier run compared all of them."""

    engine: Engine
    number: int
    known: bool
    readings: list[Reading] = field(default_factory=list)

    @classmethod
    def of(cls, context: RunContext, claims: Sequence[tuple[str, str]]) -> TaskReadings:
        """Of one run: each claim is a query that names a view, and the one with its text."""
        number = asked_of(context.engine, RULES, *(text for claim in claims for text in claim))
        try:
            with context.client.open_reader(context.uri) as reader:
                earlier = reader.state().properties.get(OF_A_TASK)
        except ShardError:
            earlier = None
        return cls(context.engine, number, earlier == str(number))

    def keeps_meaning(self, query: str, inlined: str) -> bool:
        """Whether Spark reads ``inlined`` as it reads ``query``."""
        if self.known or query == inlined:
            return True
        self.readings.append(compared(self.engine, query, inlined))
        return self.readings[-1] is not Reading.OTHER

    @property
    def properties(self) -> Mapping[str, str]:
        """What to keep, so that later runs need not ask."""
        every = all(reading is Reading.SAME for reading in self.readings)
        return {OF_A_TASK: str(self.number)} if every else {}


def compared(engine: Engine, query: str, inlined: str) -> Reading:
    """What Spark says of them."""
    try:
        one, other = optimized_plan(engine, query), optimized_plan(engine, inlined)
    except EngineError:  # of a query that fails the run says so itself
        return Reading.OTHER
    if one != other:
        return Reading.OTHER
    return Reading.UNKNOWN if EMPTY in one else Reading.SAME


def numbers(context: RunContext) -> Mapping[str, int]:
    """What to record about the views of this run's query."""
    known = _verdicts.of(context.invocation.id).get(context.compiled)
    return {} if known is None else {known[0]: known[1]}
