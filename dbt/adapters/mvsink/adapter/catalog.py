"""What `dbt docs` shows of a published shard beyond its columns: rows, bytes, since, upper."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from dbt.adapters.base.meta import AdapterMeta
from dbt.adapters.base.relation import BaseRelation

from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine
from dbt.adapters.mvsink.adapter.models import MaintainedAdapter
from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.materialization.errors import LOWER_ERRORS
from dbt.adapters.mvsink.materialization.warn import warn
from dbt.adapters.mvsink.shard import Antichain, ShardClient, ShardState
from dbt.adapters.mvsink.shard_sql import Layout, row_count

if TYPE_CHECKING:
    from dbt.adapters.mvsink.relation import MvsinkRelation

DESCRIPTIONS = {
    "rows": "Rows at the newest time",
    "bytes": "Size of the live files",
    "since": "Earliest time that can be read",
    "upper": "Contents are final before this time",
}


class CatalogAdapter(MaintainedAdapter, metaclass=AdapterMeta):
    """Part of the adapter."""

    def _get_columns_for_catalog(self, relation: BaseRelation) -> Iterable[dict[str, Any]]:
        statistics = self._shard_statistics(relation)
        for column in super()._get_columns_for_catalog(relation):
            column.update(statistics)
            yield column

    def _shard_statistics(self, relation: BaseRelation) -> dict[str, Any]:
        """As dbt's catalog wants them; empty if not a shard. Docs never fail because of a shard."""
        published = self.published(cast("MvsinkRelation", relation))
        if published is None:
            return {}
        engine = AdapterEngine(self, f"{relation.schema}.{relation.identifier}")
        try:
            with ShardClient(self.config.credentials.storage_options).open_reader(published.uri) as reader:
                state = reader.state()
                parts = Layout.of(reader, state)
            [[rows]] = engine.query(row_count(parts), "count")
        except LOWER_ERRORS as error:
            warn(f"{relation}: no statistics of its shard {published.uri}: {error}")
            return {}
        return statistics(state, int(str(rows)))


def statistics(state: ShardState, rows: int) -> dict[str, Any]:
    """The statistics of one version, by dbt's flat names."""
    values = {
        "rows": rows,
        "bytes": sum(file.size for file in state.files),
        "since": _time(state.since),
        "upper": _time(state.upper),
    }
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat[f"stats:{name}:label"] = name
        flat[f"stats:{name}:value"] = value
        flat[f"stats:{name}:description"] = DESCRIPTIONS[name]
        flat[f"stats:{name}:include"] = True
    return flat


def _time(frontier: Antichain) -> str:
    time = frontier.as_option()
    return "final" if time is None else iso(time)
