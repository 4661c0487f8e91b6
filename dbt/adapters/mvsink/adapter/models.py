"""The adapter's methods that macros call for maintained models. The work is in `maintained` and
below it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from dbt.adapters.base.meta import AdapterMeta, available
from dbt.adapters.spark.impl import SparkAdapter

from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine
from dbt.adapters.mvsink.adapter.variables import variable
from dbt.adapters.mvsink.durations import parse_time
from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.exceptions import InvalidName, InvalidRunTime, ReadOnlyRefused
from dbt.adapters.mvsink.materialization.audits import CompiledTest, chosen, compiled
from dbt.adapters.mvsink.materialization.mv import (
    LOWER_ERRORS,
    Invocation,
    MaintainedRun,
    prepared_query,
    translate,
)
from dbt.adapters.mvsink.materialization.names import check_names
from dbt.adapters.mvsink.materialization.options.table import ModelOptions, ignored_configs
from dbt.adapters.mvsink.materialization.orphans import Orphan, orphans, shard_told, tells_a_shard, unclaimed
from dbt.adapters.mvsink.materialization.publish import Docs
from dbt.adapters.mvsink.materialization.response import MvsinkResponse
from dbt.adapters.mvsink.materialization.warn import warn, warn_of_all
from dbt.adapters.mvsink.shard import ShardClient, WriteHandle
from dbt.adapters.mvsink.shard_sql.holds import held_shards, release_holds
from dbt.adapters.mvsink.shard_sql.published_view import PublishedView, UnreadableView, read_published

if TYPE_CHECKING:
    from dbt.adapters.mvsink.relation import MvsinkRelation

RUN_TIME_VARIABLE = "MVSINK_RUN_TIME"
AHEAD = 60_000  # ms
COUNTING = 2.0  # seconds for a shard of somebody else that cannot be read
log = logging.getLogger("mvsink.shard")
_warning = threading.Lock()
_warned: dict[str, str] = {}  # the invocation that was last warned, by what of
NOT_FOUND = "42P01"
REBUILT = ("table", "incremental", "snapshot", "seed", "clone")


class MaintainedAdapter(SparkAdapter, metaclass=AdapterMeta):
    """Part of the adapter. Every error of a lower layer leaves as dbt's own, with the model's name."""

    @available.parse(lambda *_, **__: 0)
    def mv_time(self, given: Any, started: datetime) -> int:
        """The run's logical time in ms: a var, `MVSINK_RUN_TIME`, or the invocation's start."""
        environment = os.environ.get(RUN_TIME_VARIABLE)
        for source, value in (("mvsink_run_time", given), (RUN_TIME_VARIABLE, environment)):
            if value is not None and value != "":
                parsed = parse_time(value)
                if parsed is None:
                    raise InvalidRunTime(source, value)
                return parsed
        return int(started.timestamp() * 1000)

    @available.parse_none
    def mv_prepare(
        self,
        node: Mapping[str, Any],
        relation: MvsinkRelation,
        existing: MvsinkRelation | None,
        query: str,
        invocation: Mapping[str, Any],
    ) -> MaintainedRun:
        """Check a model's name, configs and schedule. Nothing is written."""
        model = f"{relation.schema}.{relation.identifier}"
        check_names(model, str(relation.schema), str(relation.identifier))
        options = ModelOptions.parse(model, node["config"])
        run = MaintainedRun(
            adapter=self,
            relation=relation,
            node=node,
            query=prepared_query(query),
            options=options,
            invocation=Invocation(**invocation, sampled=self._sampled()),
            current=self.published(existing),
        )
        try:
            run.check_refresh(
                ShardClient(self._credentials().storage_options),
                run.current.uri if run.current else self._default_uri(run),
            )
        except LOWER_ERRORS as error:
            raise translate(model, error) from error
        self._check_that_spark_takes(run)
        self._warn_of_the_clock(run)
        run.warn_of_definition()
        return run

    def _check_that_spark_takes(self, run: MaintainedRun) -> None:
        """Before a view is created for the first time: does Spark's parser take its name? Dialects
        differ in what is reserved.
        """
        if run.current is None:
            try:
                run.engine.query(f"explain create or replace view {run.relation} as select 1", "check")
            except EngineError as error:
                reason = f", of which Spark says: {error.message.strip().splitlines()[0]}"
                raise InvalidName(run.model, "schema or alias", str(run.relation), reason) from error

    @available.parse_none
    def mv_warn_of_ignored(
        self, invocation_id: str, nodes: Mapping[str, Any], selected: Sequence[str]
    ) -> None:
        """Once an invocation: which of the selected models have configs of Spark tables that a
        shard does not use.
        """
        with _warning:
            if _warned.get("ignored") == invocation_id:
                return
            _warned["ignored"] = invocation_id
        found = ignored_configs(nodes[name] for name in selected if name in nodes)
        if found:
            listed = "; ".join(f"{model} ({', '.join(keys)})" for model, keys in found.items())
            warn(f"configs that a shard does not use are ignored: {listed}")

    @available.parse_list
    def mv_audits(self, run: MaintainedRun) -> list[CompiledTest]:
        """The tests of the model's `audit`, compiled."""
        if not run.options.audit or run.invocation.empty:
            return []
        manifest = self.get_macro_resolver()
        nodes = chosen(manifest, run.model, str(run.node["unique_id"]), run.options.audit)
        return [compiled(self, manifest, node) for node in nodes]

    @available.parse_none
    def mv_run(self, run: MaintainedRun) -> None:
        """Bring the shard up to date; `--empty` only checks and creates."""
        try:
            run.check()
            run.open(self._default_uri(run), self._credentials().storage_options)
            if run.invocation.empty:
                run.check_columns()
            else:
                run.run()
        except LOWER_ERRORS as error:
            run.close()
            raise translate(run.model, error) from error
        except BaseException:
            run.close()
            raise

    @available.parse_none
    def mv_publish(self, run: MaintainedRun, docs: Mapping[str, Any]) -> None:
        """Make the view show the shard."""
        try:
            run.publish(Docs(**docs))
        except LOWER_ERRORS as error:
            run.close()
            raise translate(run.model, error) from error

    @available.parse_none
    def mv_finish(self, run: MaintainedRun) -> MvsinkResponse:
        """Give up the handle; dbt's response. Nothing is left to do after it: where a warning is an
        error it is raised here.
        """
        run.close()
        response = run.result()
        run.warn()
        return response

    @available.parse_none
    def mv_mark_dropped(self, relation: MvsinkRelation) -> None:
        """If ``relation`` is a published shard, mark the shard dropped; its files live on for the
        grace period.
        """
        # before the view is dropped: where it is an error, the view stays
        warn_of_all(self._mark_dropped(relation))

    def _mark_dropped(self, relation: MvsinkRelation) -> list[str]:
        """What kept the shard from being marked, if anything did."""
        if not relation.schema:  # a temporary view
            return []
        try:
            published = self._read_published(relation)
        except UnreadableView as error:
            return [f"{relation}: its shard could not be marked dropped: {error}"]
        except EngineError as error:
            if error.sqlstate == NOT_FOUND:
                return []
            raise translate(str(relation), error) from error
        return [] if published is None else self.mv_mark_shard_dropped(str(relation), published.uri)

    @available.parse_list
    def mv_mark_shard_dropped(self, relation: str, uri: str) -> list[str]:
        """Mark the shard at ``uri`` dropped and let go of what it holds. What to warn of, for
        `mv_warn`.
        """
        try:
            client = ShardClient(self._credentials().storage_options)
            with WriteHandle.from_read(client.open_reader(uri), "drop") as handle:
                handle.mark_dropped(int(time.time() * 1000))
                release_holds(client, str(handle.shard_id), held_shards(handle.state()))
        except LOWER_ERRORS as error:
            return [f"{relation}: its shard {uri} could not be marked dropped: {error}"]
        return []

    @available.parse_none
    def mv_mark_schema_dropped(self, relation: MvsinkRelation) -> list[str]:
        """`mv_mark_dropped` for every view of a schema. What to warn of, for `mv_warn` once the
        schema is dropped: nothing half-done.
        """
        if not self.check_schema_exists(relation.database or "", str(relation.schema)):
            return []
        views = self.list_relations(relation.database, str(relation.schema))
        return [warning for view in views for warning in self._mark_dropped(cast("MvsinkRelation", view))]

    @available.parse_none
    def mv_warn(self, warnings: Sequence[str]) -> None:
        """See `warn_of_all`."""
        warn_of_all(warnings)

    @available.parse_none
    def mv_is_shard(self, relation: MvsinkRelation) -> bool:
        """Is this relation a published shard?"""
        return self.published(relation) is not None

    @available.parse_none
    def mv_shown(self, relation: MvsinkRelation | None) -> PublishedView | None:
        """What of our shards this relation shows. No statement is run for a relation whose listing
        tells that it is none.
        """
        information = getattr(relation, "information", None)
        return None if information and not tells_a_shard(information) else self.published(relation)

    @available.parse_list
    def mv_orphans(
        self, schemas: Sequence[str], nodes: Mapping[str, Any], project: str, target: str
    ) -> list[Orphan]:
        """Published shards of this project and target whose model is not among ``nodes``."""
        listed = [
            relation for schema in dict.fromkeys(schemas) for relation in self.list_relations(None, schema)
        ]
        return self._orphans(listed, nodes, project, target)

    @available.parse_none
    def mv_count_orphans(
        self, invocation_id: str, nodes: Mapping[str, Any], project: str, target: str
    ) -> int | None:
        """The same, counted, among the relations that dbt has listed for this run. None but for the
        first call of an invocation.
        """
        with _warning:
            if _warned.get("orphans") == invocation_id:
                return None
            _warned["orphans"] = invocation_id
        schemas = tuple(self.cache.schemas)  # models run in threads
        listed = [relation for name in schemas for relation in self.cache.get_relations(*name)]
        return len(self._orphans(listed, nodes, project, target, patience=COUNTING))

    def _orphans(
        self,
        listed: Iterable[Any],
        nodes: Mapping[str, Any],
        project: str,
        target: str,
        patience: float | None = None,
    ) -> list[Orphan]:
        """``patience``: seconds for a shard that cannot be read; then it is passed over. None: it
        is an error.
        """
        shown = {}
        try:
            for relation in unclaimed(listed, nodes):
                published = None if shard_told(relation.information or "") else self._read_published(relation)
                uri = shard_told(relation.information or "") or (published.uri if published else None)
                shown.update({relation: uri} if uri else {})
            return orphans(shown, self._credentials().storage_options, nodes, (project, target), patience)
        except LOWER_ERRORS as error:
            if patience is None:
                raise translate("mvsink_orphans", error) from error
            log.debug("orphans were not counted: %s", error)
            return []

    @available.parse_none
    def mv_refuse_in_read_only(self, relation: MvsinkRelation, materialized: str) -> None:
        """Raises `ReadOnlyRefused` in a read-only invocation."""
        if self._read_only():
            raise ReadOnlyRefused(f"{relation.schema}.{relation.identifier}", materialized)

    def pre_model_hook(self, config: Any) -> None:
        """Before any node runs: in a read-only invocation whatever would be rebuilt is refused."""
        materialized = str(config.get("materialized"))
        if materialized in REBUILT and self._read_only():
            raise ReadOnlyRefused(f"{config.model.schema}.{config.model.alias}", materialized)

    def _read_only(self) -> bool:
        """Of the profile, or of `mvsink_read_only` (`--vars`, or the project's `vars`)."""
        return bool(variable(self.config, "mvsink_read_only")) or bool(self._credentials().read_only)

    def published(self, relation: MvsinkRelation | None) -> PublishedView | None:
        """What of our shards ``relation`` shows; None if it is not there or is another's."""
        try:
            return self._read_published(relation)
        except LOWER_ERRORS as error:
            raise translate(str(relation), error) from error

    def _read_published(self, relation: MvsinkRelation | None) -> PublishedView | None:
        """The same, with the errors of the layers below."""
        if relation is None or not relation.is_view:
            return None
        engine = AdapterEngine(self, f"{relation.schema}.{relation.identifier}")
        return read_published(engine, str(relation))

    def _default_uri(self, run: MaintainedRun) -> str:
        """Where a model's shard is created: below `shard_root`."""
        root = str(self._credentials().shards).rstrip("/")
        return f"{root}/{run.relation.schema}/{run.relation.identifier}"

    def _sampled(self) -> bool:
        """`--sample`; dbt's `flags` do not tell."""
        return getattr(self.config.args, "sample", None) is not None

    def _credentials(self) -> Any:
        return self.config.credentials

    @staticmethod
    def _warn_of_the_clock(run: MaintainedRun) -> None:
        ahead = run.invocation.time - int(time.time() * 1000)
        if ahead > AHEAD:
            warn(f"{run.model}: mvsink_run_time is {ahead // 1000} s ahead of the clock")
