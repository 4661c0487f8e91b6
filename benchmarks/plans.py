"""Measures a read-only run, of which `mvsink plan` shows the result: `make bench` runs it.

The model is the join of six tables of `benchmarks.incremental`, some of whose lines and orders
change before each round. A preview from the changes takes turns with one that evaluates the query,
then the model is run. All three must count the same rows. A figure is the median of `--rounds`.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

from benchmarks.bench import make_tpch, start
from benchmarks.incremental import HOUR, TABLES, WIDE, Inputs, fresh, named, plain, remove
from dbt.adapters.mvsink.engine import Column, arrow_schema
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.sink import Driver, Incremental, Outcome
from tests.support.known_inputs import KnownInputs
from tests.support.session_engine import T0, Model, SessionEngine, open_shard

WAYS = {"from the changes": Incremental.ALWAYS, "in full": Incremental.NEVER}


def main() -> None:
    """Preview in both ways, run, and print what the previews took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=2, help="rounds that do not count")
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H: 1 is 6 million rows")
    parser.add_argument("--share", type=float, default=0.001)
    arguments = parser.parse_args()
    session = start()
    make_tpch(session, TABLES, arguments.scale)
    inputs = fresh(session, ("lineitem", "orders"), True, arguments.share)
    try:
        model = Model(session, inputs.root / "plans")
        columns = model.columns(plain(WIDE))
        uris = {f"shards.{name}": each.uri for name, each in inputs.models.items()}
        known = KnownInputs(named(WIDE), uris, SessionEngine(session))
        ran(known, model, columns, inputs)
        took: dict[str, list[float]] = {way: [] for way in WAYS}
        for number in range(arguments.warm + arguments.rounds):
            inputs.change()
            counts = set()
            for way, option in WAYS.items():
                started = time.monotonic()
                counts.add(previewed(known, model, columns, inputs, option).counts)
                if number >= arguments.warm:
                    took[way].append(time.monotonic() - started)
            counts.add(ran(known, model, columns, inputs).counts)
            assert len(counts) == 1, f"the counts differ: {counts}"
            print(".", end="", flush=True)
    finally:
        remove(inputs)
    changes, full = (median(seconds) for seconds in took.values())
    print(f"\npreview from the changes {changes:.2f} s, in full {full:.2f} s: ratio {changes / full:.3f}")


def previewed(
    known: KnownInputs, model: Model, columns: tuple[Column, ...], inputs: Inputs, way: Incremental
) -> Outcome:
    """A read-only run. What the evidence remembers of it is forgotten."""
    read, contents, known.never = known.read, known.contents, way is Incremental.NEVER
    outcome = ran(known, model, columns, inputs, way, read_only=True)
    known.read, known.contents, known.never = read, contents, False
    assert outcome.written.incremental is (way is Incremental.ALWAYS)
    return outcome


def ran(
    known: KnownInputs,
    model: Model,
    columns: tuple[Column, ...],
    inputs: Inputs,
    way: Incremental = Incremental.ALWAYS,
    *,
    read_only: bool = False,
) -> Outcome:
    """A run of the model at the inputs' time."""
    request = model.request(
        named(WIDE),
        columns=columns,
        time=T0 + inputs.round * HOUR,
        references=References(known.look()),
        evidence=known,
        incremental=way,
        read_only=read_only,
    )
    with open_shard(model.uri, arrow_schema(columns)) as handle:
        return Driver(request, handle, model.engine()).run()


if __name__ == "__main__":
    main()
