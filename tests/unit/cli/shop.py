"""A dbt project of two files, shards made through the Python handle, and the command `mvsink` on
them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from dbt.adapters.mvsink.cli.main import cli
from dbt.adapters.mvsink.shard import Antichain, CommitNote, ShardClient, WriteHandle
from tests.support.shards import SCHEMA, updates

NOW = 1_763_650_800_000  # 2025-11-20T15:00:00Z
HOUR = 3_600_000
PROFILES = """
p:
  target: dev
  outputs:
    dev: {type: mvsink, schema: s, threads: 2}
    prod: {type: mvsink, schema: s, threads: 2}
    warehouse: {type: postgres}
"""


class Shop:
    """The project `shop` at ``root``; its shards are where the default profile has them."""

    def __init__(self, root: Path):
        self.root = root
        self.shards = root / ".mvsink" / "shards"
        (root / "dbt_project.yml").write_text("name: shop\nversion: '1.0'\nprofile: p\n")
        self.profiles(PROFILES)

    def profiles(self, text: str) -> None:
        (self.root / "profiles.yml").write_text(text)

    def shard(
        self, relation: str, model: str | None = None, project: str = "shop", target: str = "dev"
    ) -> WriteHandle:
        """A new shard at ``schema.identifier``, owned by ``model`` if one is named."""
        handle = ShardClient().open_writer(str(self.at(relation)), SCHEMA, f"mv_sink({relation})")
        if model:
            owner = {"project": project, "unique_id": f"model.{project}.{model}", "target": target}
            handle.set_properties({"owner": json.dumps(owner, sort_keys=True)})
        return handle

    def at(self, relation: str) -> Path:
        return self.shards / relation.replace(".", "/", 1)

    def destroy(self, relation: str) -> None:
        """Make the shard's log unreadable."""
        for file in (self.at(relation) / "_delta_log").iterdir():
            file.write_text("{broken")

    def run(self, *arguments: str) -> Result:
        """`mvsink` with these arguments, from the project's directory."""
        return CliRunner().invoke(cli, list(arguments))

    def as_json(self, *arguments: str) -> Any:
        """Its output as JSON. It must succeed."""
        result = self.run(*arguments, "--output", "json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


def write(
    handle: WriteHandle, time: int, *rows: tuple[str, int], upper: int | None = None, **note: Any
) -> None:
    """One run at ``time``: rows ``(x, diff)``, the upper just past it or where ``upper`` says."""
    first = handle.upper == Antichain.of(0)
    handle.compare_and_append(
        updates(*((x, time, diff) for x, diff in rows)),
        handle.upper,
        Antichain.of(time + 1 if upper is None else upper),
        since=Antichain.of(time) if first else None,
        note=CommitNote(**{"computed_through": time, **note}),
        creation=time if first else None,
    )


def heading(output: str) -> str:
    """The titles of the table in ``output``."""
    lines = output.splitlines()
    return " ".join(lines[next(number for number, line in enumerate(lines) if "───" in line) - 1].split())
