"""Small dbt projects in processes of their own, each with its own metastore. For tests of what only
processes can show.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dbt.adapters.mvsink.shard import ShardClient, ShardState
from tests.support.small_data import INTERPRETED

MODEL = "{{ config(materialized='self_correcting_mv') }} select id, name from parquet.`%s`"
RUN = """
import os, sys
from dbt.cli.main import dbtRunner
point = sys.argv[1]
if point:
    from dbt.adapters.mvsink import failpoints
    failpoints.install(lambda reached: os._exit(9) if reached == point else None)
result = dbtRunner().invoke(["run", "--quiet", "--profiles-dir", ".", "--no-use-colors"])
if not result.success:
    print(result.exception, [r.message for r in result.result or []])
    sys.exit(1)
from dbt.adapters.mvsink.connection import jvm
from dbt.adapters.mvsink.connection.factory import EMBEDDED
jvm.STOP_TIMEOUT = 200  # Java may still write an archive of its classes
print(sorted(tuple(row) for row in EMBEDDED.running().sql("select * from s.mv").collect()))
"""


class Project:
    """A project with one model, `s.mv`, over the Parquet files of a directory."""

    def __init__(self, root: Path, shard_root: Path, source: Path, threads: int = 1):
        self.root, self.shard_root, self.source = root, shard_root, source
        (root / "models").mkdir(parents=True)
        (root / "models" / "mv.sql").write_text(MODEL % source)
        (root / "dbt_project.yml").write_text(
            "name: p\nversion: '1.0'\nprofile: p\nflags: {send_anonymous_usage_stats: false}\n"
        )
        (root / "profiles.yml").write_text(
            f"p: {{target: dev, outputs: {{dev: {{type: mvsink, schema: s, threads: {threads}, shard_root: '{shard_root}',"
            f" server_side_parameters: {json.dumps({'spark.driver.memory': '1g', **INTERPRETED})}}}}}}}\n"
        )

    def set_source(self, rows: list[tuple[int, str]]) -> None:
        """Replace the source's contents."""
        replace_source(self.source, rows)

    def start(self, kill_at: str = "") -> subprocess.Popen[str]:
        """`dbt run` in a process of its own, killed at a point of `sink.faults` if one is named."""
        code = textwrap.dedent(RUN)
        return subprocess.Popen(
            [sys.executable, "-c", code, kill_at],
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, kill_at: str = "") -> tuple[int, str]:
        """The same, to its end: exit code and the last line it printed."""
        process = self.start(kill_at)
        out, _ = process.communicate(timeout=300)
        return process.returncode, out.strip().split("\n")[-1]

    @property
    def uri(self) -> str:
        return str(self.shard_root / "s" / "mv")

    def state(self) -> ShardState:
        """The shard's newest version."""
        with ShardClient().open_reader(self.uri) as reader:
            return reader.state()

    def contents(self) -> list[tuple[Any, ...]]:
        """The collection at the newest time, read without Spark; rows as often as they occur."""
        with ShardClient().open_reader(self.uri) as reader:
            state = reader.state()
            if state.since == state.upper:  # nothing was ever written: there is no time to read at
                return []
            table = reader.snapshot((state.upper.as_option() or 1) - 1).to_pylist()
        counted = Counter({(row["id"], row["name"]): row["_mv_diff"] for row in table})
        return sorted(counted.elements())


def replace_source(source: Path, rows: Sequence[Sequence[Any]]) -> None:
    """Replace the contents at once: readers see the old file or the new one."""
    source.mkdir(exist_ok=True)
    table = pa.table({"id": pa.array([r[0] for r in rows], pa.int32()), "name": [r[1] for r in rows]})
    pq.write_table(table, source / ".new")
    (source / ".new").rename(source / "part.parquet")
