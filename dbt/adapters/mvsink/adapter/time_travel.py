"""Reading a shard's history in any model: what the macros `mv_as_of` and `mv_updates` render to.

That is a subquery over the shard's files, to be used like a relation. Its comment holds the macro's
arguments, and only they count as part of the model's definition: the files behind one time change
with every compaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dbt.adapters.base.meta import AdapterMeta, available
from dbt.adapters.spark.impl import SparkAdapter

from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine
from dbt.adapters.mvsink.durations import parse_time
from dbt.adapters.mvsink.exceptions import InvalidRunTime, NoShard
from dbt.adapters.mvsink.materialization.errors import translated
from dbt.adapters.mvsink.references.reference import Reference
from dbt.adapters.mvsink.references.resolve import open_reference, table_properties
from dbt.adapters.mvsink.shard import ShardClient
from dbt.adapters.mvsink.user_sql.marks import of_the_past

if TYPE_CHECKING:
    from dbt.adapters.mvsink.relation import MvsinkRelation

AS_OF, UPDATES = "mv_as_of", "mv_updates"


class TimeTravelAdapter(SparkAdapter, metaclass=AdapterMeta):
    """Part of the adapter."""

    @available.parse(lambda _, relation, *__: str(relation))
    def mv_as_of(self, relation: MvsinkRelation, time: Any) -> str:
        """The rows of a shard as of ``time`` (ms or ISO 8601), as a subquery."""
        at = _time(AS_OF, relation, "time", time)
        with translated(AS_OF):
            query = self._reference(AS_OF, relation).collection(at)
        return _rendered(relation, query, f"{AS_OF} {relation.render()} {at}")

    @available.parse(lambda _, relation, *__: str(relation))
    def mv_updates(self, relation: MvsinkRelation, lower: Any, upper: Any) -> str:
        """The updates with ``lower <= _mv_time < upper``, as a subquery with time and diff."""
        bounds = _time(UPDATES, relation, "lower", lower), _time(UPDATES, relation, "upper", upper)
        with translated(UPDATES):
            query = self._reference(UPDATES, relation).updates(*bounds)
        return _rendered(relation, query, f"{UPDATES} {relation.render()} {bounds[0]} {bounds[1]}")

    def _reference(self, macro: str, relation: MvsinkRelation) -> Reference:
        name = relation.render()
        engine = AdapterEngine(self, name)
        client = ShardClient(self.config.credentials.storage_options)
        reference = open_reference(engine, client, name, table_properties(engine, name))
        if reference is None:
            raise NoShard(macro, name)
        return reference


def _time(macro: str, relation: MvsinkRelation, argument: str, value: Any) -> int:
    parsed = parse_time(value)
    if parsed is None:
        raise InvalidRunTime(f"{argument} of {macro}({relation.render()})", value)
    return parsed


def _rendered(relation: MvsinkRelation, query: str, comment: str) -> str:
    """The subquery; with `--empty` and `--sample` wrapped as dbt wraps the relation itself."""
    text = of_the_past(comment, query)
    if relation.limit is not None:
        text = (
            f"(select * from {text} where false limit 0)"
            if relation.limit == 0
            else f"(select * from {text} limit {relation.limit})"
        )
    return relation.render_event_time_filtered(text) if relation.event_time_filter else text
