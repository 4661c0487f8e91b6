"""Measures what a published Delta table costs a run, and what Spark takes to read it:

    python -m benchmarks.published                    # 6 million rows, 20 columns
    python -m benchmarks.published --scale 0.1 --rounds 3

Two shards hold the wide join of TPC-H. After the same change one run brings one of them up to date,
and another run the other one and its table; they take turns. *recent*: 0.1 % of the lines and
orders among the highest 5 % of the keys, computed from the changes. *100 %*: every row changes,
and the query is evaluated.

Readers are Spark with Delta: the published table and the view of the same shard beside a plain
Delta table that was written with the same rows, after the load and with recent batches.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import wide_join
from benchmarks.bench import in_turn, make_tpch, start
from benchmarks.figures import Figure
from benchmarks.incremental import MODELS, TABLES, correction, fresh, remove
from dbt.adapters.mvsink.published import publish
from tests.support.session_engine import T0, Model, open_shard

READ = (
    "select sum(l_quantity), count(distinct o_custkey), max(l_comment), min(o_orderdate), max(p_name) from {}"
)
SCAN = "select {} from {{}}"
WANTED = {"recent": 1.35, "100 %": 1.10, "first load": 1.10, "one batch": 1.15, "eight batches": 1.25}
BATCHES = {"loaded": 0, "one batch": 1, "eight batches": 8}


def main() -> None:
    """Measure the chosen steps and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--warm", type=int, default=2, help="rounds that do not count")
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H: 1 is 6 million rows")
    parser.add_argument("--json", type=Path, help="append the figures to this file, a line each")
    parser.add_argument("--steps", nargs="*", default=["read", "recent", "load", "all"])
    arguments = parser.parse_args()
    session = start(formats=("delta",))
    make_tpch(session, TABLES, arguments.scale)
    place = Path(tempfile.mkdtemp(prefix="mvsink-bench-"))
    print(f"{'step':<32}{'seconds':>9}{'without':>9}{'ratio':>8}{'wanted':>9}", flush=True)
    steps = {"read": reads, "recent": recent, "load": loads, "all": everything}
    try:
        for name in arguments.steps:
            steps[name](session, place / name, arguments)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def report(chosen: argparse.Namespace, step: str, seconds: float, reference: float, wanted: str = "") -> None:
    """A line of the table, and of the file of figures."""
    limit = f"<= {WANTED[wanted]}" if wanted else ""
    print(f"\r{step:<32}{seconds:>9.2f}{reference:>9.2f}{seconds / reference:>8.2f}{limit:>9}", flush=True)
    if chosen.json:
        workload, way = ("read", step) if step.endswith(("plain", "view")) else ("run", step)
        Figure(
            workload, way.removeprefix("read, "), None, chosen.scale, seconds, reference, chosen.rounds
        ).append_to(chosen.json)


def publish_table(uri: str) -> None:
    """What a run with `file_format: delta` does after its commit."""
    with open_shard(uri, None) as handle:
        publish(handle, handle.state().schema.names[:0])


def reads(session: Any, place: Path, chosen: argparse.Namespace) -> None:
    """The same rows three times: the table, the shard's view, a plain Delta table."""
    model, rounds = Model(session, place, clock=itertools.count(T0, wide_join.HOUR)), wide_join.Rounds()
    model.run(wide_join.query(0))
    done = 0
    for name, batches in BATCHES.items():
        for _ in range(batches - done):
            model.run(rounds.next(0.001))
        done = batches
        publish_table(model.uri)
        session.sql("drop table if exists plain")
        session.sql(f"create table plain using delta as {wide_join.query(rounds.end)}")
        session.sql(f"create or replace view shown as {model.view()}")
        relations = {"table": f"delta.`{model.uri}/table`", "view": "shown", "plain": "plain"}
        columns = ", ".join(f"max({each})" for each in session.table("plain").columns)
        for kind, text in (("some columns", READ), ("all columns", SCAN.format(columns))):
            runs = {each: read(session, text.format(named)) for each, named in relations.items()}
            label = f"read, {name}, {kind}"
            table, plain = in_turn(chosen.rounds, runs["table"], runs["plain"], chosen.warm)
            report(chosen, f"{label}, to plain", table, plain, name if name in WANTED else "")
            table, view = in_turn(chosen.rounds, runs["table"], runs["view"], chosen.warm)
            report(chosen, f"{label}, to view", table, view)


def read(session: Any, query: str) -> Callable[[], object]:
    """A run of the query."""
    return lambda: session.sql(query).collect()


def recent(session: Any, place: Path, chosen: argparse.Namespace) -> None:
    """Incremental runs over recent changes."""
    inputs = fresh(session, ("lineitem", "orders"), True, 0.001)
    try:
        runs = [correction(session, inputs, MODELS["wide join"], inputs.root / each) for each in ("a", "b")]
        uri = str(inputs.root / "b" / "dev" / "m")
        for run in runs:
            run()
        publish_table(uri)

        def published() -> None:
            runs[1]()
            publish_table(uri)

        seconds = in_turn(chosen.rounds, published, runs[0], chosen.warm, inputs.change)
        report(chosen, "0.1 % recent changes", *seconds, wanted="recent")
    finally:
        remove(inputs)


def loads(session: Any, place: Path, chosen: argparse.Namespace) -> None:
    """First loads."""

    def load(*, table: bool) -> None:
        model = Model(session, place)
        model.run(wide_join.query(0))
        if table:
            publish_table(model.uri)
        shutil.rmtree(place)

    seconds = in_turn(chosen.rounds, lambda: load(table=True), lambda: load(table=False), chosen.warm)
    report(chosen, "first load", *seconds, wanted="first load")


def everything(session: Any, place: Path, chosen: argparse.Namespace) -> None:
    """Evaluations after every row changed."""
    plain, tabled = (
        wide_join.corrections(session, place / each, wide_join.SHARES["100 %"])
        for each in ("plain", "tabled")
    )
    uri = str(place / "tabled" / "dev" / "m")

    def published() -> None:
        tabled()
        publish_table(uri)

    seconds = in_turn(chosen.rounds, published, plain, chosen.warm)
    report(chosen, "100 %", *seconds, wanted="100 %")


if __name__ == "__main__":
    main()
