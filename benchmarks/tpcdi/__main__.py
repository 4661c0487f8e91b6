"""Measures what it costs to keep TPC-DI's 49 tables: `make bench` runs it.

    python -m benchmarks.tpcdi                                   # rebuilds, ours, all batches
    python -m benchmarks.tpcdi --scale 0.1 --variants table ours --batches 0.01 nothing

A dbt project (`benchmarks/tpcdi/project`) is run as dbt's tables (`table`: Delta, `parquet`), with
dbt's incremental models where they can be right, and as views of ours with the defaults (`ours`)
and with `incremental: always`; all with `verify: never`, in turn, in one process and one Spark
session. The sources are Delta tables. `--batches`: a share of the rows is appended, `dml` updates
and deletes 0.5 % each in six sources, `nothing` changes nothing. After each batch every model of
every variant is compared with the first variant's (EXCEPT ALL both ways, doubles rounded to 6
digits); if one differs, the benchmark fails.

With the variants `ours`, `always` and `never`, each choice of `auto` is judged as in
`benchmarks.choice`; a batch that is given several times gives medians, without the first:

    python -m benchmarks.tpcdi --variants ours always never --rebuild last --batches 0.01 0.01 0.01

A figure is the sum of what dbt says that the models took. A ratio is that to the rebuild's.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.bench import start
from benchmarks.tpcdi.comparison import difference
from benchmarks.tpcdi.generator import CHANGED_IN_PLACE, Feed, changing
from benchmarks.tpcdi.report import WAYS, choices, slowest, totals
from benchmarks.tpcdi.variants import REBUILDS, VARIANTS, Runner, VariantRun

DATA = Path(__file__).resolve().parents[1] / "data"
SOURCE_SCHEMA = "tpcdi"
LOAD, DML, NOTHING = "load", "dml", "nothing"
THREADS = 2  # that compare


def main() -> None:
    """Load, apply the batches, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.2, help="1 is 1.5 million rows of sources")
    parser.add_argument("--batches", nargs="*", default=["0.01", "0.02", "0.0001", DML, NOTHING], type=batch)
    parser.add_argument(
        "--variants", nargs="+", default=["table", "parquet", "ours", "always"], choices=VARIANTS
    )
    parser.add_argument("--select", nargs="+", help="only these models, as dbt's option of that name")
    parser.add_argument("--warm", type=int, default=1, help="runs of the first variant that do not count")
    parser.add_argument("--slowest", type=int, default=15, help="how many models the table of a run has")
    parser.add_argument(
        "--rebuild",
        choices=["each", "last"],
        default="each",
        help="after which steps tables are rebuilt and compared",
    )
    parser.add_argument("--json", type=Path, help="append what each model took to this file, a line each")
    parser.add_argument(
        "--keep", action="store_true", help="leave sources, shards and project in benchmarks/data"
    )
    arguments = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="tpcdi-", dir=DATA))
    try:
        runs = measure(place, arguments)
    finally:
        if not arguments.keep:
            shutil.rmtree(place, ignore_errors=True)
    print("\n".join(slowest(runs, arguments.slowest)))
    print("\n" + "\n".join(totals(runs)))
    if set(WAYS) <= set(arguments.variants):
        changes = [run for run in runs if run.step not in (LOAD, NOTHING)]
        print("\n" + "\n".join(choices(changes)))


def batch(text: str) -> str:
    """A share of the rows, or the name of another change."""
    if text not in (DML, NOTHING) and not 0 < float(text) <= 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a share above 0, `{DML}` or `{NOTHING}`")
    return text


def measure(place: Path, arguments: argparse.Namespace) -> list[VariantRun]:
    """The runs of all variants after each step."""
    session, invoke = start_dbt()
    feed = Feed(place / "sources", arguments.scale)
    rows = feed.load()
    print(f"scale {arguments.scale:g}: {sum(rows.values())} rows of sources", flush=True)
    runner = Runner(invoke, place, feed.place, arguments.select or ())
    for _ in range(arguments.warm):
        runner.run(LOAD, arguments.variants[0])
    runs: list[VariantRun] = []
    steps = [LOAD, *arguments.batches]
    for number, step in enumerate(steps):
        change(session, feed, step)
        rebuilt = arguments.rebuild == "each" or number == len(steps) - 1
        for variant in rotated(arguments.variants, number):
            if variant in REBUILDS and not rebuilt:
                continue
            run = runner.run(step, variant)
            runs.append(run)
            print(f"{step}, {variant}: {run.seconds:.2f} s, {run.ways()}", flush=True)
            for each in run.models.values():
                for warning in each.warnings:
                    print(f"{each.model}: {warning}")
            if arguments.json:
                with arguments.json.open("a") as file:
                    file.writelines(f"{line}\n" for line in run.lines())
        if rebuilt:
            compare(session, runner, arguments.variants, step)
    return runs


def start_dbt() -> tuple[Any, Any]:
    """A session that knows Delta, and what runs dbt in this process: the results of its nodes."""
    from dbt.cli.main import dbtRunner

    session = start(formats=("delta",))

    def invoke(arguments: Sequence[str]) -> Any:
        result = dbtRunner().invoke(list(arguments))
        if not result.success:
            failed = [each for each in result.result or () if each.status not in ("success", "skipped")]
            messages = "\n".join(f"{each.node.name}: {each.message}" for each in failed)
            raise SystemExit(f"dbt {' '.join(arguments)}: {result.exception or messages}")
        return result.result

    return session, invoke


def change(session: Any, feed: Feed, step: str) -> None:
    """What happens to the sources before the models run."""
    if step == DML:
        for source in CHANGED_IN_PLACE:
            table = f"{SOURCE_SCHEMA}.{source}"
            for statement in changing(source, table, session.table(table).count()):
                session.sql(statement)
    elif step not in (LOAD, NOTHING):
        feed.append(float(step))


def rotated(variants: Sequence[str], number: int) -> Iterator[str]:
    """The variants, beginning with another one after each step."""
    first = number % len(variants)
    return iter([*variants[first:], *variants[:first]])


def compare(session: Any, runner: Runner, variants: Sequence[str], step: str) -> None:
    """End if a model of another variant differs from the first one's."""
    first, *others = variants
    models = [model for variant, model in runner.relations if variant == first]
    pairs = [(variant, model) for variant in others for model in models]

    def words(pair: tuple[str, str]) -> str:
        return difference(session, runner.relations[first, pair[1]], runner.relations[pair])

    with ThreadPoolExecutor(THREADS) as threads:
        answers = zip(pairs, threads.map(words, pairs))
        differing = [f"{step}, {variant}, {model}: {text}" for (variant, model), text in answers if text]
    print("\n".join(differing))
    if differing:
        raise SystemExit(f"{len(differing)} models differ")
    print(f"{step}: all {len(models)} models of {', '.join(variants)} are equal", flush=True)


if __name__ == "__main__":
    main()
