"""The adapter: dbt-spark's, with maintained models, staged seeds, and checks in `dbt debug`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.reference_keys import _make_ref_key
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.adapter.commands import CommandsAdapter
from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine
from dbt.adapters.mvsink.adapter.dbt_parts import DbtPartsAdapter
from dbt.adapters.mvsink.adapter.debug import check_setup, check_spark_writes_there
from dbt.adapters.mvsink.adapter.run_events import listen
from dbt.adapters.mvsink.adapter.seeds import SeedAdapter
from dbt.adapters.mvsink.adapter.tasks import TaskAdapter
from dbt.adapters.mvsink.adapter.time_travel import TimeTravelAdapter
from dbt.adapters.mvsink.adapter.variables import check_variables
from dbt.adapters.mvsink.column import MvsinkColumn
from dbt.adapters.mvsink.configs import MvsinkConfig
from dbt.adapters.mvsink.connections import MvsinkConnectionManager
from dbt.adapters.mvsink.exceptions import SetupFailed
from dbt.adapters.mvsink.relation import MvsinkRelation
from dbt.adapters.mvsink.shard import OpenShards


class MvsinkAdapter(TaskAdapter, CommandsAdapter, TimeTravelAdapter, SeedAdapter, DbtPartsAdapter):
    """See the module."""

    Relation = MvsinkRelation
    Column = MvsinkColumn
    ConnectionManager = MvsinkConnectionManager
    AdapterSpecificConfigs = MvsinkConfig

    def __init__(self, config: Any, mp_context: Any):
        check_variables(config)  # before anything runs, also hooks
        self.session_facts: dict[str, tuple[object, list[tuple[object, ...]]]] = {}  # by query
        self.recent_answers: dict[tuple[str, bool], tuple[object, float, Any]] = {}  # see `recent`
        self.publications = object()  # replaced by another one when a model is published
        self.open_shards = OpenShards()
        self.listings: dict[str, object] = {}  # what was known of the catalog's changes, by schema
        self.server_defaults: dict[object, str | None] = {}  # of settings, by server, version and name
        super().__init__(config, mp_context)
        listen(config, self._models, self.open_shards)

    def _models(self) -> Mapping[str, Any]:
        manifest: Any = self.get_macro_resolver()
        nodes: Mapping[str, Any] = manifest.nodes
        return nodes

    @classmethod
    def type(cls) -> str:
        return "mvsink"

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """Without temporary views, which Spark lists in every schema."""
        connections: Any = self.connections
        self.listings[str(schema_relation.schema).lower()] = connections.user_changes
        relations = super().list_relations_without_caching(schema_relation)
        return [relation for relation in relations if relation.schema]

    def get_relation(self, database: str, schema: str, identifier: str) -> BaseRelation | None:
        """As in dbt, which compares the name with every relation of the schema, for each model."""
        if schema and identifier and self._schema_is_cached(None, schema):
            wanted = self.Relation.create(schema=schema, identifier=identifier)
            cached = self.cache.relations.get(_make_ref_key(wanted))
            match: Any = self._make_match  # Spark has no databases
            matches = [] if cached is None else match([cached.inner], None, schema, identifier)
            if matches:
                relation: BaseRelation = matches[0]
                return relation
        listed: BaseRelation | None = super().get_relation(database, schema, identifier)
        return listed

    def debug_query(self) -> None:
        """`dbt debug`: Java, PySpark, a query, and a compare-and-append in `shard_root`."""
        self.execute("select 1 as id")
        try:
            check_setup(self.config.credentials)
            check_spark_writes_there(AdapterEngine(self, "dbt debug"), self.config.credentials)
        except DbtRuntimeError:
            raise
        except Exception as error:
            raise SetupFailed(str(error) or type(error).__name__) from error
