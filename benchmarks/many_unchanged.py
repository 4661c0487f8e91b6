"""Measures what models that find nothing to do add to a run: `make bench` runs it.

    python -m benchmarks.many_unchanged            # 1, 100 and 1,000 models; threads 1, 4, 8
    python -m benchmarks.many_unchanged --models 10000 --threads 4 --rounds 1 --warm 1

The first model adds up a source of 1,000 rows, the others add up the first; there are at least
two. The same project runs with a materialization that does nothing: what a model costs is the
difference. Runs of both are invocations in one process, in turn, and a figure is the median of
``--rounds``. dbt loads two models; the shards of the others are copies of the second one's under
their own names, and their views entries of the catalog: neither takes a statement to Spark. The
last view is read. MB: what Python's memory grew by during the run, at its highest.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.small_models import DBT_PROJECT, PROFILES, start_dbt

KINDS = {"nothing": "idle", "unchanged": "self_correcting_mv"}
WANTED = 30  # ms
ROWS = 1000
IDLE = """{% materialization idle, default %}
  {% do store_result('main', response='nothing') %}
  {{ return({'relations': [this]}) }}
{% endmaterialization %}
"""
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
FIRST_COMMIT = f"_delta_log/{0:020}.json"
HEAD = (
    f"{'models':>7}{'threads':>9}{'nothing s':>11}{'unchanged s':>13}{'ms a model':>12}{'statements':>12}"
    f"{'nothing MB':>12}{'unchanged MB':>14}   wanted: <= {WANTED} ms at 4 threads, no statement"
)
SOURCES = "sources: [{name: raw, schema: default, tables: [{name: many}]}]\n"


def name_of(number: int) -> str:
    """The model's name: of one length, so that a copied file keeps its size."""
    return f"m{number:05}"


def text_of(number: int) -> str:
    """The model's query: the first one adds up the source, the others add up the first."""
    if number == 0:
        return "select k, count(*) n, sum(v) v from {{ source('raw', 'many') }} group by k"
    return f"select k % 7 k, sum(n) n, sum(v) v from {{{{ ref('{name_of(0)}') }}}} group by k % 7"


class Project:
    """A dbt project in two places, once for each kind, that grows."""

    def __init__(self, place: Path, run: Callable[[Sequence[str]], Any], session: Any):
        self._place, self._run, self._session = place, run, session
        self._models = 0

    def make(self) -> None:
        """Write both projects, and load the first two models by dbt."""
        source = self._place / "source" / "part-00000.parquet"
        source.parent.mkdir()
        keys = pa.array([row % 50 for row in range(ROWS)], pa.int64())
        pq.write_table(pa.table({"k": keys, "v": pa.array(range(ROWS), pa.int64())}), source)
        self._session.sql("drop table if exists default.many")
        self._session.sql(f"create table default.many using parquet location '{source.parent}'")
        for kind, materialized in KINDS.items():
            project = self._place / kind
            (project / "models").mkdir(parents=True)
            (project / "macros").mkdir()
            (project / "macros" / "idle.sql").write_text(IDLE)
            (project / "models" / "sources.yml").write_text(SOURCES)
            configured = DBT_PROJECT.replace("{+file_format: parquet}", f"{{+materialized: {materialized}}}")
            (project / "dbt_project.yml").write_text(configured)
            (project / "profiles.yml").write_text(PROFILES.replace("threads: 1", "threads: 4"))
        self._write(2)
        self.run("unchanged", 4)
        self.run("unchanged", 4)  # so that what is copied has run unchanged before
        shutil.copytree(self._shards / name_of(1), self._original)  # before it has a checkpoint

    def grow(self, models: int) -> None:
        """Add models, up to so many, with shards and views that show what they should."""
        present = self._models
        self._write(models)
        catalog = self._session._jsparkSession.sharedState().externalCatalog()
        original = catalog.getTable("s", name_of(1))
        some = self._session._jvm.scala.Some
        names = [str(original.productElementName(at)) for at in range(original.productArity())]
        values = {name: original.productElement(at) for at, name in enumerate(names)}
        text = values["viewText"].get()
        ids = set(UUID.findall(text)) | set(UUID.findall((self._original / FIRST_COMMIT).read_text()))
        for number in range(present, models):
            new = {name_of(1): name_of(number)} | {each: str(uuid.uuid4()) for each in sorted(ids)}
            copied(self._original, self._shards / name_of(number), new)
            for changed in ("viewText", "viewOriginalText"):
                values[changed] = some(replaced(text, new))
            values["identifier"] = original.identifier().copy(
                name_of(number), original.identifier().database(), original.identifier().catalog()
            )
            properties = original.properties()
            for key in ("mvsink.shard_id", "mvsink.shard_uri"):
                value = replaced(properties.apply(key), new)
                properties = properties.updated(key, value)
            values["properties"] = properties
            catalog.createTable(original.copy(*(values[name] for name in names)), False)
        last = self._session.table(f"s.{name_of(self._models - 1)}").groupBy().sum("n").collect()
        if last[0][0] != ROWS:
            raise SystemExit(f"the copied shards are wrong: {last} of {ROWS} rows")

    def run(self, kind: str, threads: int) -> Any:
        """A run of every model of one kind."""
        place = str(self._place / kind)
        flags = ["--threads", str(threads), "--project-dir", place, "--profiles-dir", place]
        return self._run(["--quiet", "run", *flags])

    def measure(self, threads: int, warm: int, rounds: int) -> None:
        """Run both kinds in turn, and print a row of the table."""
        seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
        memory: dict[str, list[float]] = {kind: [] for kind in KINDS}
        statements = 0
        for number in range(warm + rounds):
            for kind in KINDS:
                before = last_statement(self._session)
                with Memory() as grown:
                    started = time.monotonic()
                    results = self.run(kind, threads)
                    took = time.monotonic() - started
                if kind == "unchanged":
                    check_unchanged(results)
                    statements = last_statement(self._session) - before
                if number >= warm:
                    seconds[kind].append(took)
                    memory[kind].append(grown.most)
        nothing, unchanged = (statistics.median(seconds[kind]) for kind in KINDS)
        added = (unchanged - nothing) / self._models * 1000
        least, most = (max(memory[kind]) for kind in KINDS)
        print(
            f"{self._models:>7,}{threads:>9}{nothing:>11.2f}{unchanged:>13.2f}{added:>12.1f}{statements:>12}"
            f"{least:>12.0f}{most:>14.0f}",
            flush=True,
        )

    @property
    def _shards(self) -> Path:
        return self._place / "unchanged" / ".mvsink" / "shards" / "s"

    @property
    def _original(self) -> Path:
        """The second model's shard, as it was when the project was made."""
        return self._place / "original"

    def _write(self, models: int) -> None:
        for kind in KINDS:
            for number in range(self._models, models):
                (self._place / kind / "models" / f"{name_of(number)}.sql").write_text(text_of(number))
        self._models = max(models, self._models)


def replaced(text: str, new: Mapping[str, str]) -> str:
    """``text`` with other names and ids."""
    for old, name in new.items():
        text = text.replace(old, name)
    return text


def copied(shard: Path, target: Path, new: Mapping[str, str]) -> None:
    """A shard like another, with other names and ids in its log."""
    for path in shard.rglob("*"):
        if path.is_file():
            place = target / path.relative_to(shard)
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".json":
                place.write_text(replaced(path.read_text(), new))
            else:
                place.write_bytes(path.read_bytes())


def check_unchanged(results: Any) -> None:
    """`SystemExit` for a model that did something."""
    for result in results:
        if result.adapter_response["mode"] != "unchanged":
            raise SystemExit(f"{result.node.name}: {result.adapter_response['_message']}")


def last_statement(session: Any) -> int:
    """The number of Spark's newest statement."""
    executions = session._jsparkSession.sharedState().statusStore().executionsList()
    return int(executions.last().executionId()) if executions.nonEmpty() else 0


class Memory:
    """The resident memory of this process, in MB, that a block takes at most above what it had."""

    def __enter__(self) -> Memory:
        self._before, self._highest, self._ended = resident(), 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def most(self) -> float:
        return self._highest - self._before

    def _watch(self) -> None:
        while not self._ended.wait(0.05):
            self._highest = max(self._highest, resident())


def resident() -> float:
    """This process's resident memory, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def main() -> None:
    """Run both kinds in turn, at each size and number of threads, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", type=int, nargs="+", default=[1, 100, 1000])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=1, help="rounds that do not count")
    arguments = parser.parse_args()
    run, session = start_dbt()
    with tempfile.TemporaryDirectory(prefix="mvsink-many-") as directory:
        project = Project(Path(directory), run, session)
        project.make()
        print(HEAD)
        for models in arguments.models:
            project.grow(models)
            for threads in arguments.threads:
                project.measure(threads, arguments.warm, arguments.rounds)


if __name__ == "__main__":
    main()
