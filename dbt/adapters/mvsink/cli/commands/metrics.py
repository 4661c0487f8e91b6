"""`mvsink metrics`: figures of shards as OpenMetrics text, for Prometheus and other collectors.

    # TYPE mvsink_shard_files gauge
    # HELP mvsink_shard_files Live files.
    mvsink_shard_files{model="revenue",relation="analytics.revenue",project="shop",target="dev"} 3

docs/commands.md lists names, units and labels. A value that is not known has no line. Times and
durations are in seconds, as is usual for Prometheus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import click

from dbt.adapters.mvsink.cli.commands import status
from dbt.adapters.mvsink.cli.selection import takes_models
from dbt.adapters.mvsink.cli.status_table import Condition, ShardStatus
from dbt.adapters.mvsink.cli.target import Target
from dbt.adapters.mvsink.shard_sql.properties import Verdict


@dataclass(frozen=True)
class Gauge:
    """A figure of every shard. If it has a unit, its ``name`` ends in the unit."""

    name: str
    help: str
    value: Callable[[ShardStatus], float | None]

    @property
    def unit(self) -> str:
        last = self.name.rsplit("_", 1)[-1]
        return last if last in ("seconds", "bytes") else ""


def _seconds(name: str, help: str, milliseconds: Callable[[ShardStatus], int | None]) -> Gauge:
    def seconds(shard: ShardStatus) -> float | None:
        value = milliseconds(shard)
        return None if value is None else value / 1000

    return Gauge(name, help, seconds)


def _is_readable(shard: ShardStatus) -> int:
    return int(shard.condition in (Condition.READABLE, Condition.FINAL))


def _incident_runs(shard: ShardStatus) -> int | None:
    if shard.incident is not None:
        return shard.incident.runs
    return None if shard.error else 0


LAST, NEXT = "last_refresh_timestamp_seconds", "next_refresh_timestamp_seconds"
GAUGES = (
    Gauge("readable", "1 if the shard has contents and can be read, else 0.", _is_readable),
    _seconds("lag_seconds", "How long ago the contents were computed.", lambda s: s.lag),
    _seconds(LAST, "When the newest run that advanced the shard committed.", lambda s: s.last_refresh),
    Gauge("incident_runs", "How many runs in a row failed, were skipped or warned.", _incident_runs),
    Gauge("run_seconds", "How long that run took.", lambda s: s.run_seconds),
    _seconds(NEXT, "The next refresh of a shard with a schedule.", lambda s: s.next_refresh),
    _seconds("warn_after_seconds", "The age after which contents are a warning.", lambda s: s.warn_after),
    _seconds("error_after_seconds", "The age after which contents are an error.", lambda s: s.error_after),
    Gauge("rows", "Rows at the newest time, if the files' statistics determine them.", lambda s: s.rows),
    Gauge("updates", "Update records in the live files.", lambda s: s.updates),
    Gauge("error_updates", "Update records that are errors.", lambda s: s.error_updates),
    Gauge("files", "Live files.", lambda s: s.files),
    Gauge("size_bytes", "Size of the live files.", lambda s: s.bytes),
    Gauge("pending_times", "Times of its input that a task has not processed.", lambda s: s.pending_inputs),
    Gauge("generation", "How often the contents have been replaced as a whole.", lambda s: s.generation),
)
FRESHNESS, AUTHOR = "mvsink_shard_freshness", "mvsink_shard_author"


def exposition(shards: Sequence[ShardStatus]) -> str:
    """The figures of ``shards`` as text that ends in ``# EOF``. Companion shards are left out."""
    return "".join(f"{line}\n" for line in _lines(shards))


def _lines(shards: Sequence[ShardStatus]) -> Iterator[str]:
    for gauge in GAUGES:
        name = f"mvsink_shard_{gauge.name}"
        yield from _head(name, "gauge", gauge.help, gauge.unit)
        for shard in shards:
            value = gauge.value(shard)
            if value is not None:
                yield f"{name}{_labels(labels_of(shard))} {_number(value)}"
    yield from _head(
        FRESHNESS, "stateset", "Whether the contents are as fresh as their model's config requires."
    )
    for shard in shards:
        for verdict in Verdict if shard.slo else ():
            state = {**labels_of(shard), FRESHNESS: verdict.value}
            yield f"{FRESHNESS}{_labels(state)} {int(shard.slo is verdict)}"
    info = "Who ran the newest run that advanced the shard, as far as its commit records it."
    yield from _head(AUTHOR, "info", info)
    for shard in shards:
        if shard.author:
            yield f"{AUTHOR}_info{_labels({**labels_of(shard), **shard.author})} 1"
    yield "# EOF"


def labels_of(shard: ShardStatus) -> dict[str, str]:
    """The labels of a shard's figures."""
    return {
        "model": shard.model,
        "relation": shard.relation,
        "project": shard.project or "",
        "target": shard.target or "",
    }


def _head(name: str, kind: str, text: str, unit: str = "") -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    if unit:
        yield f"# UNIT {name} {unit}"
    yield f"# HELP {name} {text}"


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(round(value, 3))


@click.command()
@takes_models()
@status.takes_all
def metrics(target: Target, models: tuple[str, ...], all_owners: bool) -> None:
    """The figures of every shard as OpenMetrics text, for Prometheus and other collectors.

    All shards of this project and target, or those of MODELS: names as in ref(), unique ids, or
    schema.identifier.

    Exit code: 0; 1 if a shard cannot be read or has lost files (mvsink_shard_readable is 0, the
    reason is on stderr, the others are shown); 2 for wrong usage, such as an unknown model.

    \b
    Examples:
      mvsink metrics
      mvsink metrics --target prod --select tag:daily
    """
    shards = status.read_statuses(target, models, all_owners, status.clock())
    click.echo(exposition(shards), nl=False)
    for shard in shards:
        if shard.error:
            click.echo(f"{shard.relation}: {shard.error}", err=True)
    if any(shard.error for shard in shards):
        click.get_current_context().exit(1)
