"""Binding an input that is no shard to times, through a companion shard (`companion`). After it the
task runs on exact times.
"""

from __future__ import annotations

from dbt.adapters.mvsink.engine import Engine
from dbt.adapters.mvsink.inputs.delta import DeltaInput
from dbt.adapters.mvsink.inputs.file_binding import bind_files
from dbt.adapters.mvsink.inputs.files import FilesInput
from dbt.adapters.mvsink.inputs.protocol import Input
from dbt.adapters.mvsink.inputs.version_binding import bind_delta
from dbt.adapters.mvsink.shard import ShardClient


def bind(source: DeltaInput | FilesInput, time: int, client: ShardClient, uri: str, engine: Engine) -> Input:
    """``source`` as an input whose frontier is past ``time`` (ms): what is new was bound at times
    up to it, by whoever was first.

    ``uri`` is the companion's place (`companion.companion_uri`).
    """
    if isinstance(source, DeltaInput):
        return bind_delta(source, time, client, uri, engine)
    return bind_files(source, time, client, uri, engine)
