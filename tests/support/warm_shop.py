"""A project on a warm session, several commands at once on it, some of them killed: after each
round every view is read by an ordinary reader and must be what Spark says that its query gives.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SOURCE = "default.many"
MODELS = {
    "by_key": "select k, count(*) n, sum(v) total from {{ source('raw', 'many') }} group by k",
    "large": "select id, k, v from {{ source('raw', 'many') }} where v > 50",
    "best": "select k, max(v) best, count(distinct v) kinds from {{ source('raw', 'many') }} group by k",
    "above": "select b.k, b.n, b.total - a.best rest from {{ ref('by_key') }} b join {{ ref('best') }} a on a.k = b.k",
}
PROFILE = (
    "{type: mvsink, schema: s, threads: 2, session: warm, server_side_parameters: {spark.driver.memory: 2g}}"
)
DBT = "from dbt.cli.main import cli; cli()"
MVSINK = "from dbt.adapters.mvsink.cli.main import main; main()"
LONGEST = 5.0  # seconds after which a command is killed, at most


class WarmShop:
    """The project at ``root``; ``remote`` is its session's address."""

    def __init__(self, root: Path, seed: int):
        self.root, self._random = root, random.Random(seed)
        self.remote = ""
        self._files = 0

    def make(self) -> None:
        """Write it, start its session, and load every model."""
        (self.root / "models").mkdir(parents=True)
        (self.root / "source").mkdir()
        for name, text in MODELS.items():
            config = "{{ config(materialized='self_correcting_mv') }}\n"
            (self.root / "models" / f"{name}.sql").write_text(config + text)
        (self.root / "models" / "sources.yml").write_text(
            "sources: [{name: raw, schema: default, tables: [{name: many}]}]\n"
        )
        (self.root / "dbt_project.yml").write_text(
            "name: p\nversion: '1.0'\nprofile: p\nflags: {send_anonymous_usage_stats: false}\n"
        )
        (self.root / "profiles.yml").write_text(f"p: {{target: dev, outputs: {{dev: {PROFILE}}}}}\n")
        self.change()
        started = json.loads(self.ended(self.begin(MVSINK, "session", "start", "--output", "json")))
        token = json.loads(Path(started["token_file"]).read_text())["token"]
        self.remote = f"{started['remote']}/;token={token}"
        with self.session() as spark:
            spark.sql(f"create table {SOURCE} using parquet location '{self.root / 'source'}'").collect()
        self.ended(self.begin(DBT, "run"))

    def change(self) -> None:
        """Another file arrives."""
        self._files += 1
        rows = [
            (self._files * 1000 + number, self._random.randrange(20), self._random.randrange(100))
            for number in range(200)
        ]
        columns = [pa.array(each, pa.int64()) for each in zip(*rows, strict=True)]
        path = self.root / "source" / f"part-{self._files:05}.parquet"
        pq.write_table(pa.table(columns, names=["id", "k", "v"]), path.with_name(f".{path.name}"))
        path.with_name(f".{path.name}").rename(path)

    def round(self, kills: int) -> str:
        """Five `dbt run` at once, two of them of the same model, beside `plan` and `status`, of
        which some are killed; then one run, and all is compared. `right`, or what was wrong.
        """
        self.change()
        selected = [*MODELS, self._random.choice(list(MODELS))]
        begun = [self.begin(DBT, "run", "--select", name) for name in selected]
        begun += [self.begin(MVSINK, command) for command in ("plan", "status")]
        killed = self._random.sample(begun, kills)
        for process in sorted(killed, key=lambda _: self._random.random()):
            time.sleep(self._random.uniform(0, LONGEST / max(kills, 1)))
            process.kill()
        for process in begun:
            if process in killed:
                process.communicate()
                continue
            try:
                self.ended(process)
            except AssertionError as error:
                return f"failed: {error}"
        self.ended(self.begin(DBT, "run"))
        return self.compared()

    def compared(self) -> str:
        """Every view, read by an ordinary reader, with Spark's answer to its query."""
        with self.session() as spark:
            for name, text in MODELS.items():
                query = text.replace("{{ source('raw', 'many') }}", SOURCE)
                for other in MODELS:
                    query = query.replace(f"{{{{ ref('{other}') }}}}", f"s.{other}")
                sides = [
                    sorted(map(tuple, spark.sql(each).collect()))
                    for each in (f"select * from s.{name}", query)
                ]
                if sides[0] != sides[1]:
                    return f"differs: {name} has {len(sides[0])} rows, its query {len(sides[1])}"
        return "right"

    def begin(self, code: str, *arguments: str) -> subprocess.Popen[str]:
        place = ["--project-dir", str(self.root), "--profiles-dir", str(self.root)]
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments, *place],
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self, process: subprocess.Popen[str]) -> str:
        """The output of a command that has to succeed."""
        out, err = process.communicate()
        assert process.returncode == 0, f"{process.args!r}: {out}\n{err}"
        assert "starting Spark" not in out or "session" in process.args, out
        return out

    @contextmanager
    def session(self) -> Iterator[Any]:
        """A session of an ordinary reader."""
        from pyspark.sql.connect.session import SparkSession

        session = SparkSession.builder.remote(self.remote).create()
        try:
            yield session
        finally:
            session.stop()

    def end(self) -> None:
        self.ended(self.begin(MVSINK, "session", "stop", "--all", "--force"))
