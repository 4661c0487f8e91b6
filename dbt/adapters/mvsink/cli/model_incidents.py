"""Reads what is kept of runs that went wrong (`shard.incidents`), for commands that show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbt.adapters.mvsink.cli.discovery import DiscoveredShard, Owner, failing, in_parallel
from dbt.adapters.mvsink.cli.target import Target
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.shard import Incident, Incidents


def find_incidents(target: Target) -> dict[Owner, Incident]:
    """The incidents below ``target.shards``, of all projects and targets, by the model's owner."""
    incidents = Incidents(target.shards, target.storage_options)
    with failing(f"cannot list what went wrong below {masked(target.shards)}"):
        read = in_parallel(incidents.read, sorted(incidents.names()))
    return {owner_of_incident(incident): incident for incident in read if incident is not None}


def owner_of_incident(incident: Incident) -> Owner:
    """The model that it is of."""
    return Owner(incident.project, incident.unique_id, incident.target)


def with_models_that_never_ran(
    shards: Sequence[DiscoveredShard], target: Target, incidents: Mapping[Owner, Incident]
) -> list[DiscoveredShard]:
    """``shards``, and the models with an incident that have no shard: not even the first run of
    such a model came so far.
    """
    known = {shard.owner for shard in shards}
    unreadable = {shard.relation for shard in shards if shard.owner is None}
    places = {
        owner: f"{target.shards}/{incident.relation.rpartition('.')[0]}/{incident.relation.rpartition('.')[2]}"
        for owner, incident in incidents.items()
        if owner not in known and incident.relation not in unreadable
    }
    return [
        *shards,
        *(DiscoveredShard(incidents[owner].relation, uri, owner=owner) for owner, uri in places.items()),
    ]
