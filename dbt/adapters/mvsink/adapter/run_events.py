"""Listens to dbt's events: keeps what is wrong with models' last runs (`shard.incidents`), and ends
an invocation with one line on stderr that counts this adapter's warnings.

dbt reports every end of a model, also of one that could not be compiled, which no other method of
an adapter sees. A listener never fails a run: what it cannot keep is in `logs/dbt.log`.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dbt_common.events.event_manager_client import add_callback_to_manager
from dbt_common.invocation import get_invocation_id

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.adapter.variables import variable
from dbt.adapters.mvsink.connections import command_of_dbt
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.shard import (
    Incident,
    Incidents,
    OpenShards,
    ShardClient,
    ShardError,
    Trouble,
    author,
)
from dbt.adapters.mvsink.shard.incidents import file_name

log = logging.getLogger("mvsink.shard")
MAINTAINED = ("self_correcting_mv", "continual_task")
COMMANDS = ("run", "build", "retry")  # of dbt's, those that run models
PREVIEWS = ("mvsink_read_only", "mvsink_explain", "mvsink_rehearsal")  # variables
NAME = "mvsink"  # of our warnings
UPSTREAM = "a model upstream failed or was skipped"
TIMEOUT = 2.0  # seconds for a shard that cannot be read
LONGEST = 2_000  # characters of a message
MOST = 20  # messages
TROUBLES = {"error": Trouble.FAILED, "fail": Trouble.FAILED, "skipped": Trouble.SKIPPED}  # dbt's status


def listen(config: Any, models: Callable[[], Mapping[str, Any]], opened: OpenShards) -> None:
    """Listen until the invocation ends. ``config`` is dbt's; ``models`` gives the project's nodes
    by unique id.
    """
    add_callback_to_manager(RunEvents(config, models, opened).notice)


@dataclass
class RunEvents:
    """The events of one invocation. Models end in threads."""

    config: Any
    models: Callable[[], Mapping[str, Any]]
    opened: OpenShards
    invocation_id: str = field(default_factory=get_invocation_id)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._known: frozenset[str] | None = None  # files of incidents when the first model ended
        self._warnings: Counter[str] = Counter()  # by model
        self._kept = 0  # of them, in incidents
        self._handlers = {
            "AdapterEventWarning": self._warned,
            "NodeFinished": self._finished,
            "CommandCompleted": self._completed,
        }

    def notice(self, message: Any) -> None:
        """dbt calls this with each event."""
        handle = self._handlers.get(message.info.name)
        if handle is None or message.info.invocation_id != self.invocation_id:
            return
        try:
            handle(message.data)
        except Exception as error:  # an event must not fail a run
            log.warning("what became of a model could not be recorded: %s", masked(str(error)))

    # the line at the end

    def _warned(self, data: Any) -> None:
        if data.name == NAME:
            with self._lock:
                self._warnings[data.node_info.node_name or ""] += 1

    def _completed(self, data: Any) -> None:
        with self._lock:
            warnings, self._warnings = self._warnings, Counter()
            kept, self._kept = self._kept, 0
        if warnings and not self._previews:
            print(closing_line(warnings, kept), file=sys.stderr, flush=True)

    # incidents

    def _finished(self, data: Any) -> None:
        node, result = data.node_info, data.run_result
        if node.materialized not in MAINTAINED or not self._records:
            return
        response = result.adapter_response
        answer = {key: response[key] for key in ("kind", "paused") if key in response}
        if answer.get("paused") or answer.get("kind") == "read-only":
            return
        warnings = tuple(map(str, response["warnings"])) if "warnings" in response else ()
        trouble = TROUBLES.get(result.status) or (Trouble.WARNED if warnings else None)
        incidents = self._incidents
        name = file_name(node.unique_id, self._target)
        if trouble is None:
            if name in self._names(incidents):
                incidents.delete(name)
            return
        messages = warnings if trouble is Trouble.WARNED else (result.message or UPSTREAM,)
        incidents.write(self._incident(node, trouble, messages, incidents.read(name)))
        with self._lock:
            self._kept += len(messages) if trouble is Trouble.WARNED else 0

    @property
    def _records(self) -> bool:
        """Whether the command runs models for good."""
        arguments = getattr(self.config, "args", None)
        partly = getattr(arguments, "empty", False) or getattr(arguments, "sample", None) is not None
        return command_of_dbt() in COMMANDS and not partly and not self._previews

    @property
    def _previews(self) -> bool:
        """Whether the command only says what a run would do."""
        read_only = bool(self.config.credentials.read_only)
        return read_only or any(variable(self.config, name) for name in PREVIEWS)

    @property
    def _incidents(self) -> Incidents:
        credentials = self.config.credentials
        return Incidents(str(credentials.shards).rstrip("/"), credentials.storage_options)

    @property
    def _target(self) -> str:
        return str(self.config.target_name)

    def _names(self, incidents: Incidents) -> frozenset[str]:
        """The files that are there, by one listing an invocation; those of models that the project
        no longer has are deleted.
        """
        with self._lock:
            if self._known is None:
                self._known = incidents.names()
                for name in self._known:
                    self._delete_if_removed(incidents, name)
            return self._known

    def _delete_if_removed(self, incidents: Incidents, name: str) -> None:
        incident = incidents.read(name)
        if (
            incident is not None
            and (incident.project, incident.target) == (self._project, self._target)
            and incident.unique_id not in self.models()
        ):
            incidents.delete(name)

    @property
    def _project(self) -> str:
        return str(self.config.project_name)

    def _incident(
        self, node: Any, trouble: Trouble, messages: tuple[str, ...], earlier: Incident | None
    ) -> Incident:
        relation = f"{node.node_relation.schema}.{node.node_relation.alias}"
        shard_id, version, run = self._shard(node)
        now = wall_clock.now_ms()
        lasting = (
            earlier is not None
            and (earlier.trouble is Trouble.WARNED) == (trouble is Trouble.WARNED)
            and (shard_id is None or trouble is Trouble.WARNED or not earlier.is_over(shard_id, run))
        )
        return Incident(
            relation=relation,
            project=self._project,
            unique_id=node.unique_id,
            target=self._target,
            trouble=trouble,
            time=now,
            since=earlier.since if earlier is not None and lasting else now,
            runs=earlier.runs + 1 if earlier is not None and lasting else 1,
            messages=tuple(masked(text).strip()[:LONGEST] for text in messages[:MOST]),
            where=str(getattr(self.models().get(node.unique_id), "original_file_path", node.node_path)),
            host=socket.gethostname(),
            invocation_id=self.invocation_id,
            author=author(),
            shard_id=shard_id,
            version=version,
        )

    def _shard(self, node: Any) -> tuple[str | None, int | None, int | None]:
        """The id of the model's shard, its version, and that of its newest run if that was another
        invocation's; None each if it has none, or if it cannot be read.
        """
        credentials = self.config.credentials
        client = ShardClient(credentials.storage_options, opened=self.opened, timeout=TIMEOUT)
        place = (
            f"{str(credentials.shards).rstrip('/')}/{node.node_relation.schema}/{node.node_relation.alias}"
        )
        try:
            with client.open_reader(place) as reader:
                state, run = reader.state(), reader.newest_run()
        except ShardError:
            return None, None, None
        other = run is not None and run.note.invocation_id != self.invocation_id
        return str(state.shard_id), state.version, run.version if other and run is not None else None


def closing_line(warnings: Mapping[str, int], kept: int = 0) -> str:
    """What an invocation with warnings ends with. ``kept``: how many are about a run, not about a
    model's text.

    >>> closing_line({"orders": 2, "items": 1, "": 1})
    'dbt-mvsink: 4 warnings: orders (2), items (1), the run (1)'
    >>> closing_line({"orders": 2}, 1)
    'dbt-mvsink: 2 warnings: orders (2); `mvsink status` shows 1 of them again'
    """
    count = sum(warnings.values())
    named = ", ".join(f"{model or 'the run'} ({number})" for model, number in warnings.items())
    again = f"; `mvsink status` shows {kept} of them again" if kept else ""
    return f"dbt-mvsink: {count} warning{'s'[: count > 1]}: {named}{again}"
