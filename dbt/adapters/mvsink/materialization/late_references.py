"""References of a task that have not passed a pending time: which ones it waits for, and what keeps
them.

By default a task waits for the maintained models of its own project and target, because runs of the
project refresh them: what it writes then does not depend on which models a run selected. Others are
read at their newest time, for it may take long until they are refreshed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from dbt.adapters.mvsink.continual_task.statements import Program
from dbt.adapters.mvsink.continual_task.task_request import Late
from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.inputs import ShardInput
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.materialization.options.table import MATERIALIZATIONS
from dbt.adapters.mvsink.shard import Incidents, ShardState, Trouble
from dbt.adapters.mvsink.shard.incidents import file_name
from dbt.adapters.mvsink.shard_sql.properties import owner_of, pause_of, stored_schedule
from dbt.adapters.mvsink.user_sql.splice import TemporalReference, relations
from dbt.adapters.mvsink.user_sql.words import last_part

WAIT = "wait"


def awaited_references(
    context: RunContext, program: Program, references: Mapping[str, ShardInput], views: Iterable[str]
) -> frozenset[str]:
    """The names of the ``references`` that the task waits for. ``views`` are the queries of views
    that its statements read.
    """
    chosen = context.options.on_late_reference
    if chosen is not None:
        return frozenset(references) if chosen == WAIT else frozenset()
    if context.invocation.rehearsal:  # it refreshes only what it runs
        return frozenset()
    texts = (program.text, program.ctes or "", *views)
    return frozenset(
        name
        for name, shard in references.items()
        if _read_in(texts, name) and _refreshed_by_runs(context, shard.handle.state())
    )


def _read_in(texts: Iterable[str], name: str) -> bool:
    """Whether a text reads it; a model may name another one only to run after it."""
    try:
        return any(relations(text, name) for text in texts)
    except TemporalReference:
        return True


def _refreshed_by_runs(context: RunContext, state: ShardState) -> bool:
    """Whether the shard is that of a model of this project and target, and runs write it."""
    invocation, owner = context.invocation, owner_of(state)
    if (owner.get("project"), owner.get("target")) != (invocation.project, invocation.target):
        return False
    node = context.manifest.nodes.get(owner["unique_id"])
    if node is None or node.config.materialized not in MATERIALIZATIONS:
        return False
    return not node.config.get("read_only")


def explained(
    context: RunContext, late: Sequence[Late], references: Mapping[str, ShardInput]
) -> tuple[Late, ...]:
    """``late`` with the model of each reference that is waited for, and what keeps it, if that is
    known.
    """
    return tuple(_explained(context, each, references[each.name]) if each.waits else each for each in late)


def _explained(context: RunContext, late: Late, reference: ShardInput) -> Late:
    state = reference.handle.state()
    return replace(late, model=owner_of(state).get("unique_id", ""), why=_why(context, reference, state))


def _why(context: RunContext, reference: ShardInput, state: ShardState) -> str:
    pause = pause_of(state)
    if pause is not None:
        return pause.words
    return _failure(context, reference, state) or _schedule(state)


def _failure(context: RunContext, reference: ShardInput, state: ShardState) -> str:
    owner = owner_of(state)
    if not owner:
        return ""
    incidents = Incidents(context.shard_root.rstrip("/"), context.storage_options)
    incident = incidents.read(file_name(owner["unique_id"], owner["target"]))
    if incident is None or incident.trouble is Trouble.WARNED or incident.project != owner["project"]:
        return ""
    run = reference.handle.newest_run()
    if incident.is_over(str(state.shard_id), run.version if run else None):
        return ""
    if incident.trouble is Trouble.SKIPPED:
        return f"it was skipped at {iso(incident.time)}, because a model upstream of it failed"
    return f"its last run failed at {iso(incident.time)}"


def _schedule(state: ShardState) -> str:
    due = state.upper.as_option()
    if due is None or stored_schedule(state) is None:
        return ""
    return f"its schedule has a refresh at {iso(due)}, which no run has made"


def waiting_warning(waiting: int, late: Sequence[Late]) -> str:
    """How many times are ``waiting`` for which of the ``late`` references, and how to go on."""
    waits = [each for each in late if each.waits]
    return (
        f"{waiting} times stay pending, because a reference has not passed them: {'; '.join(_described(waits))}. They follow once a run has "
        "refreshed it; with `on_late_reference: newest` the task goes on with what it holds"
    )


def _described(waits: Sequence[Late]) -> Iterator[str]:
    for each in waits:
        yield f"{last_part(each.name)} ({each.why})" if each.why else last_part(each.name)
