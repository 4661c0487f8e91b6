"""Measures `mvsink import` of a table in which 1 % is wrong, beside a rebuild of the same query:

    python -m benchmarks.table_import                  # 10 million rows
    python -m benchmarks.table_import --rows 1000000 --rounds 1 --warm 0

A project of one model over a source of files, in one process, in turn: the model as a `table` over
a copy of the source in which 1 % of the rows is missing, too many or stale, which is the rebuild;
`mvsink import --dry-run`; `mvsink import`; and everything back. What it says is compared with what
was planted.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from dbt.adapters.mvsink.cli.main import cli
from dbt.adapters.mvsink.connection.factory import EMBEDDED
from dbt.adapters.mvsink.credentials import MvsinkCredentials

WANTED = {"dry run": 1.0, "import": 2.0}
COLUMNS = "id, customer, status, amount, quantity, placed, note, code"
ROWS = """
select id, id % 100000 customer, concat('status ', id % 7) status, cast(id % 9973 as decimal(12,2)) amount,
  cast(id % 50 as int) quantity, date_add(date '2020-01-01', cast(id % 2000 as int)) placed,
  concat('note of ', id % 1000003) note, concat('c', id % 31) code from range({rows})"""
# of each 300 rows one is missing, one has another amount, one comes with another id
WRONG = """
select if(id % 300 = 2, id + 1000000000, id) id, customer, status, cast(amount + if(id % 300 = 1, 1, 0) as decimal(12,2)) amount,
  quantity, placed, note, code from {{ source('raw', 'orders') }} where id % 300 <> 0"""
RIGHT = f"select {COLUMNS} from {{{{ source('raw', 'orders') }}}}"
TABLE = "{{ config(materialized='table', file_format='parquet') }} "
VIEW = "{{ config(materialized='self_correcting_mv', verify='never') }} "


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=1, help="rounds that do not count")
    arguments = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="mvsink-bench-"))
    try:
        session = make_project(place, arguments.rows)
        took: dict[str, list[float]] = {"rebuild": [], "dry run": [], "import": []}
        for _ in range(arguments.warm + arguments.rounds):
            run_round(session, took, arguments.rows)
        rebuild = statistics.median(took["rebuild"][arguments.warm :])
        print(f"{'step':<12}{'s':>8}{'ratio':>8}{'wanted':>9}")
        for step, seconds in took.items():
            median = statistics.median(seconds[arguments.warm :])
            limit = f"<= {WANTED[step]}" if step in WANTED else ""
            print(f"{step:<12}{median:>8.1f}{median / rebuild:>8.2f}{limit:>9}")
    finally:
        os.chdir("/")
        shutil.rmtree(place, ignore_errors=True)


def make_project(place: Path, rows: int) -> Any:
    """The source, and the project's files but the model, in which this process is then. Returns
    Spark's session.
    """
    project = place / "p"
    (project / "models").mkdir(parents=True)
    os.chdir(project)
    session = EMBEDDED.session(MvsinkCredentials(schema="imported"))
    session.sql(ROWS.format(rows=rows)).write.parquet(str(place / "source"))
    session.sql("create database if not exists raw_import")
    session.sql(f"create table raw_import.orders using parquet location '{place / 'source'}'")
    (project / "models" / "sources.yml").write_text(
        "sources: [{name: raw, schema: raw_import, tables: [{name: orders}]}]\n"
    )
    (project / "dbt_project.yml").write_text(
        "name: p\nversion: '1.0'\nprofile: p\nflags: {send_anonymous_usage_stats: false}\n"
    )
    (project / "profiles.yml").write_text(
        "p: {target: dev, outputs: {dev: {type: mvsink, schema: imported, threads: 1, session: own}}}\n"
    )
    return session


def run_round(session: Any, took: dict[str, list[float]], rows: int) -> None:
    """Each step once, and everything as it was before."""
    planted = {"missing": len(range(0, rows, 300)), "stale": len(range(1, rows, 300))}
    planted["missing"] += len(range(2, rows, 300))
    planted["too_many"] = len(range(2, rows, 300))
    Path("models/orders.sql").write_text(TABLE + WRONG)
    timed(took["rebuild"], lambda: dbt("run"))
    Path("models/orders.sql").write_text(VIEW + RIGHT)
    for step, options in (("dry run", ["--dry-run"]), ("import", [])):
        result = timed(
            took[step], lambda options=options: mvsink("import", "orders", "--key", "id", *options)
        )  # type: ignore[misc]
        if {name: result[name] for name in planted} != planted:
            raise SystemExit(f"{step}: {result}, but {planted} was planted")
    session.sql("drop view imported.orders")
    session.sql("drop table imported.orders_before_import")
    shutil.rmtree(".mvsink/shards")


def timed(took: list[float], act: Callable[[], Any]) -> Any:
    """The result of ``act``, whose seconds are kept."""
    started = time.monotonic()
    result = act()
    took.append(time.monotonic() - started)
    return result


def dbt(*arguments: str) -> None:
    from dbt.cli.main import dbtRunner

    result = dbtRunner().invoke(["--quiet", *arguments])
    if not result.success:
        raise SystemExit(str(result.exception or [each.message for each in result.result]))


def mvsink(*arguments: str) -> Any:
    """The JSON of a command."""
    done = CliRunner().invoke(cli, [*arguments, "--output", "json"])
    if done.exit_code:
        raise SystemExit(done.output)
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
