"""What a run would do to a shard whose next contents were computed elsewhere. No SQL.

`mvsink plan --against` runs models in temporary schemas, where every run is a first load, so
policies that depend on the previous contents do not apply there. This module applies them: how the
columns change, and whether `max_change` lets the rows through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dbt.adapters.mvsink.engine import shard_columns
from dbt.adapters.mvsink.shard import ShardState
from dbt.adapters.mvsink.shard_sql import Counts
from dbt.adapters.mvsink.sink.errors import GateFailed, SchemaChanged
from dbt.adapters.mvsink.sink.gate import check_change
from dbt.adapters.mvsink.sink.request import SinkRequest
from dbt.adapters.mvsink.sink.run_plan import added_columns, column_changes, wanted_columns


@dataclass(frozen=True)
class ForecastChange:
    """From contents of ``before`` rows to ``after`` rows; ``inserted`` and ``deleted`` count rows
    over the columns that both have.
    """

    before: int
    after: int
    inserted: int
    deleted: int


@dataclass(frozen=True)
class Forecast:
    """``generation``: why all contents would be replaced, empty if they would not. ``added``,
    ``removed``: columns; ``retyped``: the types before and then. ``gate``: whether the publish gate
    lets the change through, None without a gate or a change; ``gate_message`` why not. ``error``:
    why the run would fail.
    """

    generation: str = ""
    added: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    retyped: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    gate: bool | None = None
    gate_message: str = ""
    error: str = ""


def forecast(request: SinkRequest, state: ShardState, change: ForecastChange) -> Forecast:
    """What ``request`` would do to the shard ``state``, by its columns, gate and policies. Its
    audits are not run again: they have passed in the temporary schemas.
    """
    try:
        changes = column_changes(request, state)
    except SchemaChanged as error:
        return Forecast(error=str(error))
    in_place = bool(added_columns(request, state)) and state.readable and not request.gate.is_active
    generation = f"columns changed ({'; '.join(changes)})" if changes and not in_place else ""
    stored = {column.name: column.type.text for column in shard_columns(state.schema)}
    wanted = {column.name: column.type.text for column in wanted_columns(request, state)}
    altered = Forecast(
        generation,
        {name: kind for name, kind in wanted.items() if name not in stored},
        tuple(name for name in stored if name not in wanted),
        {name: (stored[name], kind) for name, kind in wanted.items() if stored.get(name, kind) != kind},
    )
    return _gated(request, change, altered)


def _gated(request: SinkRequest, change: ForecastChange, altered: Forecast) -> Forecast:
    gate, replaces = request.gate, bool(altered.generation)
    counts = Counts(change.after, change.before) if replaces else Counts(change.inserted, change.deleted)
    if not gate.is_active or counts.nothing:
        return altered
    message = ""
    if gate.max_change is not None and gate.counts_changes:
        try:
            check_change(gate.max_change, request.model, counts, change.before, replaces)
        except GateFailed as error:
            message = str(error)
    return replace(altered, gate=not message, gate_message=message)
