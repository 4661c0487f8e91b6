"""Reading a shard's history in any model: what `mv_as_of`, `mv_updates` and `mv_history` render.

Each renders to a subquery over the shard's files, to be used like a relation. Its comment holds the
macro's arguments, and only these count as part of the model's definition, because the files behind
one time change with every compaction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dbt.adapters.base.meta import AdapterMeta, available
from dbt.adapters.spark.impl import SparkAdapter

from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine
from dbt.adapters.mvsink.durations import parse_time
from dbt.adapters.mvsink.exceptions import InvalidArgument, InvalidRunTime, NoShard
from dbt.adapters.mvsink.history.row_versions import RowVersions, history_query
from dbt.adapters.mvsink.inputs.reference import Reference
from dbt.adapters.mvsink.materialization.errors import translated
from dbt.adapters.mvsink.references.resolve import catalog_entry, open_reference
from dbt.adapters.mvsink.shard import ShardClient
from dbt.adapters.mvsink.shard_sql.as_of import change_data
from dbt.adapters.mvsink.user_sql.marks import of_the_past

if TYPE_CHECKING:
    from dbt.adapters.mvsink.relation import MvsinkRelation

NET, CDF = "updates", "cdf"  # the shapes of updates
AS_OF, UPDATES, HISTORY = "mv_as_of", "mv_updates", "mv_history"


class TimeTravelAdapter(SparkAdapter, metaclass=AdapterMeta):
    """Part of the adapter."""

    @available.parse(lambda _, relation, *__: str(relation))
    def mv_as_of(self, relation: MvsinkRelation, time: Any) -> str:
        """The rows of a shard as of ``time`` (ms or ISO 8601), as a subquery."""
        at = _time(AS_OF, relation, "time", time)
        with translated(AS_OF):
            query = self._reference(AS_OF, relation).past_collection(at)
        return _rendered(relation, query, f"{AS_OF} {relation.render()} {at}")

    @available.parse(lambda _, relation, *__: str(relation))
    def mv_updates(
        self,
        relation: MvsinkRelation,
        lower: Any,
        upper: Any,
        key: Sequence[str] | None = None,
        shape: str = NET,
    ) -> str:
        """The updates with ``lower <= _mv_time < upper``, as a subquery with time and diff, or in
        the ``shape`` of Delta's change data feed, with images of updates by ``key``.
        """
        bounds = _time(UPDATES, relation, "lower", lower), _time(UPDATES, relation, "upper", upper)
        comment = f"{UPDATES} {relation.render()} {bounds[0]} {bounds[1]}"
        _check_shape(relation, key, shape)
        with translated(UPDATES):
            shard = self._reference(UPDATES, relation)
            query = shard.updates(*bounds)
        if shape == CDF:
            columns = _key_columns(relation, key, shard.columns)
            query = change_data(shard.columns, columns, query)
            # no text of the user's may end the comment
            comment += f" {CDF} {json.dumps(columns)}".replace("/", "\\u002f")
        return _rendered(relation, query, comment)

    @available.parse(lambda _, relation, *__: str(relation))
    def mv_history(self, relation: MvsinkRelation, key: Sequence[str] | None = None) -> str:
        """The versions of a shard's rows, by ``key`` or whole, as a subquery."""
        with translated(HISTORY):
            shard = self._reference(HISTORY, relation)
        name = f"{HISTORY}({relation.render()})"
        with translated(name):
            versions = RowVersions.of(shard.layout, shard.state)
            query = history_query(versions, shard.columns, key or (), name, keyless=key is None)
        # no text of the user's may end the comment
        arguments = json.dumps(key).replace("/", "\\u002f")
        return _rendered(relation, query, f"{HISTORY} {relation.render()} {arguments}")

    def _reference(self, macro: str, relation: MvsinkRelation) -> Reference:
        name = relation.render()
        engine = AdapterEngine(self, name)
        client = ShardClient(self.config.credentials.storage_options)
        reference = open_reference(engine, client, name, catalog_entry(engine, name))
        if reference is None:
            raise NoShard(macro, name)
        return reference


def _time(macro: str, relation: MvsinkRelation, argument: str, value: Any) -> int:
    parsed = parse_time(value)
    if parsed is None:
        raise InvalidRunTime(f"{argument} of {macro}({relation.render()})", value)
    return parsed


def _check_shape(relation: MvsinkRelation, key: Any, shape: Any) -> None:
    """Raises `InvalidArgument`."""
    macro = f"{UPDATES}({relation.render()})"
    if shape not in (NET, CDF):
        raise InvalidArgument(macro, "shape", shape, f"{NET!r} (columns, _mv_time, _mv_diff) or {CDF!r}")
    if key is not None and shape != CDF:
        raise InvalidArgument(macro, "key", key, f"no key, or shape={CDF!r}, in which a key pairs rows")


def _key_columns(relation: MvsinkRelation, key: Any, columns: Sequence[str]) -> list[str]:
    """The columns of ``key`` as the shard spells them. Raises `InvalidArgument`."""
    names = [key] if isinstance(key, str) else list(key or ())
    spelled = {column.lower(): column for column in columns}
    if (key is not None and not names) or any(str(name).lower() not in spelled for name in names):
        expected = f"one or several of {', '.join(columns)}"
        raise InvalidArgument(f"{UPDATES}({relation.render()})", "key", key, expected)
    return [spelled[str(name).lower()] for name in names]


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
