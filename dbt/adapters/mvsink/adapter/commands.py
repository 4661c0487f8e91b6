"""The adapter's methods that the command `mvsink` calls through macros: they say what a run would
do to another target's shard (`plan --against`), undo runs (`undo`), rename a model's shard
(`rename`), purge rows for good (`purge`), and say what a query gives and reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from dbt.adapters.base.meta import AdapterMeta, available

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine
from dbt.adapters.mvsink.adapter.models import MaintainedAdapter
from dbt.adapters.mvsink.adapter.variables import variable
from dbt.adapters.mvsink.engine import Column, DataflowError, parse_type
from dbt.adapters.mvsink.engine.types import plain
from dbt.adapters.mvsink.exceptions import MacroRefused
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.materialization.audits import CompiledTest, chosen, compiled
from dbt.adapters.mvsink.materialization.catalog_entry import republish
from dbt.adapters.mvsink.materialization.errors import translated
from dbt.adapters.mvsink.materialization.options.folder_configs import configs_of
from dbt.adapters.mvsink.materialization.options.gate_options import accepts
from dbt.adapters.mvsink.materialization.options.table import ModelOptions
from dbt.adapters.mvsink.materialization.purged_model import PurgedModel, counted
from dbt.adapters.mvsink.materialization.renaming import Name, RenameRequest, rename
from dbt.adapters.mvsink.materialization.warn import warn_of_all
from dbt.adapters.mvsink.references.places import places_of
from dbt.adapters.mvsink.shard import ReadHandle, ShardClient, WriteHandle
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard_sql.properties import Pause, stored_spec
from dbt.adapters.mvsink.sink import Audit, Gate, SinkRequest, change_limit
from dbt.adapters.mvsink.sink.purging import PurgeRequest
from dbt.adapters.mvsink.sink.run_plan import ForecastChange, forecast
from dbt.adapters.mvsink.sink.undoing import UndoRequest, undo

if TYPE_CHECKING:
    from dbt.adapters.mvsink.relation import MvsinkRelation


PASSED = Audit("audits of the temporary run", lambda contents: contents, lambda contents: contents)


class CommandsAdapter(MaintainedAdapter, metaclass=AdapterMeta):
    """Part of the adapter."""

    @available.parse(lambda *_, **__: "{}")
    def mv_judge(self, relation: MvsinkRelation, node: Mapping[str, Any], request: str) -> str:
        """A `Forecast` as JSON.

        ``relation`` is the shard's in the other target. ``request`` is JSON with its ``uri``, the
        ``columns`` that the query has now (types by name), and the ``change``, a `ForecastChange`.
        """
        asked, model = json.loads(request), f"{relation.schema}.{relation.identifier}"
        with (
            translated(model),
            ShardClient(self._credentials().storage_options).open_reader(asked["uri"]) as reader,
        ):
            columns = tuple(Column(name, parse_type(text, name)) for name, text in asked["columns"].items())
            wanted = self._request(model, node, reader, columns)
            return json.dumps(asdict(forecast(wanted, reader.state(), ForecastChange(**asked["change"]))))

    @available.parse_list
    def mv_undo_audits(
        self, relation: MvsinkRelation, node: Mapping[str, Any] | None, request: str
    ) -> list[CompiledTest]:
        """The tests of the model's `audit`, compiled; none if any result of theirs is accepted."""
        if node is None or json.loads(request)["accept"]:
            return []
        model, manifest = f"{relation.schema}.{relation.identifier}", self.get_macro_resolver()
        wanted = ModelOptions.parse(model, configs_of(model, node, manifest)).audit.tests
        if not wanted:
            return []
        nodes = chosen(manifest, model, str(node["unique_id"]), wanted)
        return [compiled(self, manifest, each) for each in nodes]

    @available.parse(lambda *_, **__: "{}")
    def mv_undo(
        self,
        relation: MvsinkRelation,
        existing: MvsinkRelation | None,
        node: Mapping[str, Any] | None,
        request: str,
        invocation_id: str,
        audits: Sequence[tuple[CompiledTest, str]] = (),
    ) -> str:
        """Undo runs, or say what that would do; the result as JSON.

        ``request`` is JSON with ``uri``, ``intervals`` (ms), ``reason``, ``by``, ``accept``,
        ``dry_run``. ``node`` is the model; if it is None, because the project has no such model,
        there is no gate. ``audits`` is as for `mv_run`.
        """
        asked, model = json.loads(request), f"{relation.schema}.{relation.identifier}"
        judged = tuple(test.audit(str(relation), verdict) for test, verdict in audits)
        with translated(model):
            client = ShardClient(self._credentials().storage_options)
            reader = client.open_reader(asked["uri"])
            with WriteHandle.from_read(reader, "undo") as handle:
                engine = AdapterEngine(self, model)
                configs = None if node is None else configs_of(model, node, self.get_macro_resolver())
                wanted = _undo_request(model, asked, handle, configs, judged)
                done = undo(replace(wanted, invocation_id=invocation_id), handle, engine)
                published = self.published(existing) if done.committed else None
                if published is not None and published.shard_id == str(handle.shard_id):
                    catalog = self._credentials().iceberg_catalog
                    warn_of_all(republish(engine, str(relation), handle, published, catalog))
        return json.dumps(asdict(done))

    @available.parse_none
    def mv_refuse(self, message: str) -> None:
        """Raises `MacroRefused`."""
        raise MacroRefused(message)

    @available.parse_none
    def mv_rename(self, before: MvsinkRelation | None, after: MvsinkRelation | None, request: str) -> None:
        """Have the shard at the ``uri`` of the ``request`` (JSON) shown by another name; see
        `renaming`. ``before`` and ``after`` are what has the names now.
        """
        asked = json.loads(request)
        old, new = self._name(asked["before"], before), self._name(asked["after"], after)
        root, options = str(self._credentials().shards).rstrip("/"), self._credentials().storage_options
        wanted = RenameRequest(old, new, asked["model"], asked["owner"], root, asked["by"], asked["view"])
        with (
            translated(str(old)),
            WriteHandle.from_read(ShardClient(options).open_reader(asked["uri"]), "rename") as handle,
        ):
            rename(wanted, handle, DeltaStorage(root, options), AdapterEngine(self, str(new)))

    @available.parse(lambda *_, **__: "{}")
    def mv_purge(
        self, relation: MvsinkRelation, existing: MvsinkRelation | None, request: str, invocation_id: str
    ) -> str:
        """Purge rows of a model for good, or say what that would do; a `PurgeAnswer` as JSON, with
        the number of such rows in ``others``.

        ``request`` is JSON with ``uri``, ``where``, ``before`` (ms or null), ``by``, ``now``,
        ``dry_run``, ``task``, and ``others``: relations to be asked for the rows.
        """
        asked, model = json.loads(request), f"{relation.schema}.{relation.identifier}"
        credentials, shown = self._credentials(), self.published(existing)
        client = ShardClient(credentials.storage_options)
        with (
            translated(model),
            WriteHandle.from_read(client.open_reader(asked["uri"]), "purge") as handle,
        ):
            engine = AdapterEngine(self, model)
            wanted = PurgeRequest(
                model=model,
                time=wall_clock.now_ms(),
                by=asked["by"],
                where=asked["where"],
                before=asked["before"],
                refresh=stored_spec(handle.state()),
                appends=not asked["task"],
                despite_readers=asked["now"],
                invocation_id=invocation_id,
            )
            purged = PurgedModel(
                engine, handle, client, credentials.storage_options, str(relation), shown,
                credentials.iceberg_catalog,
            )  # fmt: skip
            answer = purged.forecast(wanted) if asked["dry_run"] else purged.purge(wanted)
            others = counted(engine, asked["others"], asked["where"]) if asked["where"] else {}
        return json.dumps({**asdict(answer), "others": others})

    def _name(self, asked: Mapping[str, str], existing: MvsinkRelation | None) -> Name:
        relation = self.Relation.create(schema=asked["schema"], identifier=asked["identifier"])
        shown = None if existing is None else self.published(existing)
        return Name(asked["schema"], asked["identifier"], relation.render(), existing is not None, shown)

    @available.parse(lambda *_: "[]")
    def mv_read(self, request: str) -> str:
        """The few rows of a query that the command `mvsink` needs, as JSON.

        ``request`` is JSON with ``query`` and ``what``, which names the Spark jobs.
        """
        asked = json.loads(request)
        with translated("mvsink"):
            rows = AdapterEngine(self, "mvsink").query(asked["query"], asked["what"])
        return json.dumps([[plain(value) for value in row] for row in rows])

    @available.parse(lambda *_: "{}")
    def mv_places(self, query: str) -> str:
        """The places that ``query`` reads, for the command `mvsink watch`, as JSON: a `ReadPlaces`,
        or an ``error``.
        """
        try:
            return json.dumps(asdict(places_of(AdapterEngine(self, "mvsink"), query)))
        except DataflowError as error:
            return json.dumps({"error": str(error)})

    def _request(
        self, model: str, node: Mapping[str, Any], reader: ReadHandle, columns: tuple[Column, ...]
    ) -> SinkRequest:
        options = ModelOptions.parse(model, configs_of(model, node, self.get_macro_resolver()))
        now = wall_clock.now_ms()
        name, accept = str(node["name"]), variable(self.config, "mvsink_accept")
        return SinkRequest(
            model=model,
            query="",
            columns=columns,
            time=now,
            clock=now,
            retain_history=options.retain_history,
            references=References(),
            on_schema_change=options.on_schema_change,
            gate=Gate(
                change_limit(options.max_change, reader.history),
                (PASSED,) if options.audit.tests else (),
                accepts(accept, str(node["unique_id"]), name, model),
            ),
        )


def _undo_request(
    model: str,
    asked: Mapping[str, Any],
    handle: WriteHandle,
    configs: Mapping[str, Any] | None,
    audits: tuple[Audit, ...],
) -> UndoRequest:
    """The request, with the model's gate: its `max_change` and its audits."""
    now = wall_clock.now_ms()
    options = None if configs is None else ModelOptions.parse(model, configs)
    most = None if options is None else change_limit(options.max_change, handle.history)
    return UndoRequest(
        model=model,
        intervals=tuple((lower, upper) for lower, upper in asked["intervals"]),
        time=now,
        reason=asked["reason"],
        pause=Pause(asked["by"], now, asked["reason"]),
        refresh=stored_spec(handle.state()),
        gate=Gate(most, audits, asked["accept"]),
        dry_run=asked["dry_run"],
    )
