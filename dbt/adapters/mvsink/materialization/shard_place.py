"""Where the shard of a model is that has no view which would say so.

Usually at `<schema>/<identifier>` below the root. `mvsink rename` moves no file: the shard stays
where it is, records the relation that shows it now (`properties.relation_of`), and a small file
leads from the new name to it:

    <root>/<schema>/_renamed/<identifier>.json    {"shard": "dev/old"}

A model that later gets the old name finds its place taken, and has `<schema>/<identifier>.2`.
"""

from __future__ import annotations

import json

from dbt.adapters.mvsink.shard import NotAShard, ShardClient, ShardError
from dbt.adapters.mvsink.shard.stored import Unreadable, a_text, an_object, member, parsed
from dbt.adapters.mvsink.shard_sql.properties import relation_of

RENAMED = "_renamed"


def pointer_path(schema: str, identifier: str) -> str:
    """The path of the file, below the root, that leads to the shard of a renamed model."""
    return f"{schema}/{RENAMED}/{identifier}.json"


def pointer_text(root: str, uri: str) -> str:
    """Its text. A shard below the root is named by its path there, so that both can be moved."""
    return json.dumps({"shard": uri.removeprefix(f"{root}/")})


def place_of(client: ShardClient, root: str, schema: str, identifier: str) -> str:
    """The URI of the shard that `schema.identifier` shows, or where it is to be created. Raises
    `LostPlace` rather than have a second one created.
    """
    default, wanted = f"{root}/{schema}/{identifier}", f"{schema}.{identifier}"
    path = pointer_path(schema, identifier)
    text = client.text_at(root, path)
    if text is not None:
        pointed = _pointed(text, root, path)
        shown = _shown(client, pointed)
        if shown is None:
            raise LostPlace(root, path, f"leads to {pointed}, where there is no shard")
        if shown == wanted:
            return pointed
    uri, number = default, 1
    while _shown(client, uri) not in (None, "", wanted):  # it was renamed, and shown as another
        number += 1
        uri = f"{default}.{number}"
    return uri


class LostPlace(ShardError):
    """The file that leads to a renamed model's shard does not. A new shard in another place would
    lose its history.
    """

    error_code = "MVS-130"

    def __init__(self, root: str, path: str, problem: str):
        super().__init__(
            f"{root}/{path}, which leads to the shard of a renamed model, {problem}\n  Expected: the shard back in its place, "
            "`mvsink rename OLD NEW`, which writes the file again, or no such file, to begin with a new shard"
        )


def _pointed(text: str, root: str, path: str) -> str:
    """The URI that the file's ``text`` leads to. Raises `LostPlace`."""
    try:
        shard = a_text(member(an_object(parsed(text)), "shard"))
    except Unreadable as error:
        raise LostPlace(root, path, f"cannot be read: {error}") from error
    return shard if "://" in shard or shard.startswith("/") else f"{root}/{shard}"


def _shown(client: ShardClient, uri: str) -> str | None:
    """The relation that the shard at ``uri`` records; empty if none, None if there is no shard."""
    try:
        with client.open_reader(uri) as reader:
            shown = relation_of(reader.state())
            return "" if shown is None else shown.name
    except NotAShard:
        return None
