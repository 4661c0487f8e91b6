"""Measures corrections from the changes of the inputs: `make bench` runs it.

The models read TPC-H: a join of six tables (20 columns; 6 million rows at scale 1), four
aggregates, four joins with groups, two with EXISTS, the newest row for each key, and orders by
customer. The large tables are shards, which change before each run: of the lines and orders a share
is replaced, and of these one in ten is deleted. *recent*: the keys that change are among the
highest 5 %, which are in the last row groups; *scattered*: they are spread by a hash. Every run
alternates with a rebuild as a Parquet table from plain tables; a figure is the median of
`--rounds`, a ratio that to the rebuild.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bench import in_turn, make_tpch, start
from benchmarks.figures import Figure
from dbt.adapters.mvsink.engine import Column, arrow_schema
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.incremental import Analysed, Sums, analyse, sums_of
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.shard import Antichain
from dbt.adapters.mvsink.shard_sql import BatchDescription, Layout
from dbt.adapters.mvsink.shard_sql.rewrite import Upkeep
from dbt.adapters.mvsink.shard_sql.stager import Stager
from dbt.adapters.mvsink.sink import Correction, Desired, Driver, Incremental, Outcome
from tests.support.known_inputs import KnownInputs
from tests.support.session_engine import T0, Model, SessionEngine, open_shard

TABLES = ("lineitem", "orders", "customer", "part", "supplier", "nation")
SHARDS = {"lineitem": "l_orderkey", "orders": "o_orderkey", "customer": "c_custkey", "part": "p_partkey"}
HOUR = 3_600_000
DAY = 24 * HOUR
PARTS = 1_000_000  # of all keys, by a hash
WIDE = (
    "select l_orderkey, l_linenumber, o_custkey, c_name, c_mktsegment, n_name, o_orderdate, o_orderpriority, "
    "l_partkey, p_name, p_brand, l_suppkey, s_name, l_quantity, l_extendedprice, l_discount, "
    "cast(l_extendedprice * (1 - l_discount) as decimal(18, 4)) net, l_shipdate, l_shipmode, l_comment "
    "from {lineitem} join {orders} on l_orderkey = o_orderkey join {customer} on o_custkey = c_custkey "
    "join nation on c_nationkey = n_nationkey join {part} on l_partkey = p_partkey join supplier on l_suppkey = s_suppkey"
)
MODELS = {
    "wide join": WIDE,
    "TPC-H 1": (
        "select l_returnflag, l_linestatus, sum(l_quantity) qty, sum(l_extendedprice) price, "
        "sum(l_extendedprice * (1 - l_discount)) discounted, sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) charge, "
        "avg(l_quantity) mean_qty, avg(l_extendedprice) mean_price, avg(l_discount) mean_discount, count(*) n "
        "from {lineitem} where l_shipdate <= date'1998-09-02' group by l_returnflag, l_linestatus"
    ),
    "TPC-H 14": (
        "select 100.00 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount) else 0 end) "
        "/ sum(l_extendedprice * (1 - l_discount)) promo from {lineitem} join {part} on l_partkey = p_partkey "
        "where l_shipdate >= date'1995-09-01' and l_shipdate < date'1995-10-01'"
    ),
    "TPC-H 18, inner": "select l_orderkey, sum(l_quantity) q, count(*) n from {lineitem} group by l_orderkey",
    "TPC-H 15, inner": (
        "select l_suppkey, sum(l_extendedprice * (1 - l_discount)) revenue from {lineitem} "
        "where l_shipdate >= date'1996-01-01' and l_shipdate < date'1996-04-01' group by l_suppkey"
    ),
    "TPC-H 3": (
        "select l_orderkey, sum(l_extendedprice * (1 - l_discount)) revenue, o_orderdate, o_shippriority "
        "from {customer} join {orders} on c_custkey = o_custkey join {lineitem} on l_orderkey = o_orderkey "
        "where c_mktsegment = 'BUILDING' and o_orderdate < date'1995-03-15' and l_shipdate > date'1995-03-15' "
        "group by l_orderkey, o_orderdate, o_shippriority"
    ),
    "TPC-H 5": (
        "select n_name, sum(l_extendedprice * (1 - l_discount)) revenue from {customer} join {orders} on c_custkey = o_custkey "
        "join {lineitem} on l_orderkey = o_orderkey join supplier on l_suppkey = s_suppkey and c_nationkey = s_nationkey "
        "join nation on s_nationkey = n_nationkey where n_regionkey = 2 and o_orderdate >= date'1994-01-01' "
        "and o_orderdate < date'1995-01-01' group by n_name"
    ),
    "TPC-H 10": (
        "select c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) revenue, c_acctbal, n_name, c_address, c_phone "
        "from {customer} join {orders} on c_custkey = o_custkey join {lineitem} on l_orderkey = o_orderkey "
        "join nation on c_nationkey = n_nationkey where o_orderdate >= date'1993-10-01' and o_orderdate < date'1994-01-01' "
        "and l_returnflag = 'R' group by c_custkey, c_name, c_acctbal, c_phone, n_name, c_address"
    ),
    "TPC-H 12": (
        "select l_shipmode, count_if(o_orderpriority in ('1-URGENT', '2-HIGH')) high, "
        "count_if(o_orderpriority not in ('1-URGENT', '2-HIGH')) low from {orders} join {lineitem} on o_orderkey = l_orderkey "
        "where l_shipmode in ('MAIL', 'SHIP') and l_commitdate < l_receiptdate and l_shipdate < l_commitdate "
        "and l_receiptdate >= date'1994-01-01' and l_receiptdate < date'1995-01-01' group by l_shipmode"
    ),
    "TPC-H 4": (
        "select o_orderpriority, count(*) n from {orders} where o_orderdate >= date'1993-07-01' and o_orderdate < date'1993-10-01' "
        "and exists (select 1 from {lineitem} where l_orderkey = o_orderkey and l_commitdate < l_receiptdate) group by o_orderpriority"
    ),
    "late orders": (
        "select o_orderkey, o_custkey, o_totalprice, o_orderdate from {orders} "
        "where exists (select 1 from {lineitem} where l_orderkey = o_orderkey and l_commitdate < l_receiptdate)"
    ),
    "newest line": (
        "select * except (place) from (select *, row_number() over (partition by l_orderkey order by l_shipdate desc, l_linenumber) place "
        "from {lineitem}) ranked where place = 1"
    ),
    "orders by customer": (
        "select c_custkey, c_name, count(o_orderkey) orders, sum(o_totalprice) total, max(o_orderdate) newest "
        "from {customer} left join {orders} on c_custkey = o_custkey group by c_custkey, c_name"
    ),
}
CHANGED = {  # what replaces a column's value
    "lineitem": "cast(l_extendedprice + 1 as decimal(15, 2)) l_extendedprice",
    "orders": "concat('x', o_orderpriority) o_orderpriority",
    "customer": "cast(c_acctbal + 1 as decimal(15, 2)) c_acctbal",
}


@dataclass
class Inputs:
    """The shards, and the times and versions at which the model has read them."""

    session: Any
    root: Path
    changing: tuple[str, ...]
    recent: bool
    share: float
    round: int = 0
    every: int = HOUR  # ms from one change and run to the next
    reached: int = 0  # how many of the PARTS have changed so far, in turn, some of them more often

    def __post_init__(self) -> None:
        self.models = {
            name: Model(self.session, self.root, f"in.{name}", clock=iter([T0])) for name in SHARDS
        }
        for name, model in self.models.items():
            model.run(f"select * from {name}")

    @property
    def _parts(self) -> int:
        return int(PARTS * self.share) * (20 if self.recent else 1)

    def change(self) -> None:
        """Replace the next share of the keys, and delete one in ten. After all keys have changed,
        the changes are taken back in the same order, then made again.
        """
        begin, self.reached = self.reached, self.reached + self._parts
        assert self._parts <= PARTS, "more than the keys that may change"
        for name in self.changing:
            model = self.models[name]
            with open_shard(model.uri, None) as handle:
                state = handle.state()
                columns = Layout.of(handle, state).columns
                spans = self._spans(begin)
                signed = " union all ".join(self._signed(name, columns, *span) for span in spans)
                at = T0 + (self.round + 1) * self.every
                rows = Desired(signed, columns, state.salt, signed=True).hashed()
                updates = Correction(columns, 0).advance_since(at).insert(rows).updates_before(at + 1)
                stager = Stager(SessionEngine(self.session), handle, name)
                description = BatchDescription(state.upper, Antichain(at + 1))
                batch = stager.adopt(stager.stage(updates, "change"), description)
                since = Antichain(at - model.options["retain_history"])
                done = handle.compare_and_append_batch(
                    [batch], description.lower, description.upper, since=since
                )
                # as every run does: otherwise the shard would be in ever more files
                upkeep = Upkeep(stager.engine, handle, Stopwatch())
                upkeep.maintain(done.maintenance)
                assert not upkeep.warnings, upkeep.warnings
        self.round += 1

    def _spans(self, begin: int) -> list[tuple[int, int, bool]]:
        """What has changed since ``begin`` was reached: from the first of the `PARTS` to before the
        second; and whether it was not taken back.
        """
        turns = range(begin // PARTS, self.reached // PARTS + 1)
        ends = [
            (max(begin - turn * PARTS, 0), min(self.reached - turn * PARTS, PARTS), turn % 2 == 0)
            for turn in turns
        ]
        return [span for span in ends if span[0] < span[1]]

    def _signed(self, name: str, columns: tuple[Column, ...], begin: int, end: int, made: bool) -> str:
        items = ", ".join(column.name for column in columns)
        chosen, (value, column) = self._among(name, begin, end), CHANGED[name].rsplit(" ", 1)
        new = f"select * except ({column}), {value} {column} from {name}"
        before, after = (-1, 1) if made else (1, -1)
        return (
            f"select {items}, {before}L _mv_diff from {name} where {chosen} union all "
            f"select {items}, {after}L from ({new}) where {chosen} and not {deleted(name)}"
        )

    def changed_since(self, name: str, begin: int) -> str:
        """Whether the key of a row has changed since ``begin`` was reached."""
        return f"({' or '.join(self._among(name, *span[:2]) for span in self._spans(begin))})"

    def _among(self, name: str, begin: int, end: int) -> str:
        key = SHARDS[name]
        among = f"(pmod(xxhash64({key}), {PARTS}) between {begin} and {end - 1}"
        if self.recent:
            [[top]] = self.session.sql(f"select max({key}) from {name}").collect()
            among += f" and {key} > {int(top * 0.95)}"
        return f"{among})"

    def current(self, name: str) -> str:
        """The query of what a shard holds now, from the plain table."""
        if name not in self.changing:
            return f"select * from {name}"
        value, column = CHANGED[name].rsplit(" ", 1)
        turn, reached = divmod(self.reached, PARTS)
        changed = self._among(name, *((0, reached) if turn % 2 == 0 else (reached, PARTS)))
        return (
            f"select * except ({column}), if({changed}, {value}, {column}) {column} "
            f"from {name} where not ({changed} and {deleted(name)})"
        )


def deleted(name: str) -> str:
    """Whether a row that is chosen is deleted."""
    return f"pmod(xxhash64({SHARDS[name]}, 1), 10) = 0"


def named(query: str) -> str:
    """The query over the shards."""
    return query.format(**{name: f"shards.{name} {name}" for name in SHARDS})


def correction(
    session: Any, inputs: Inputs, query: str, root: Path, way: Incremental = Incremental.ALWAYS
) -> Callable[[], Outcome]:
    """Runs of the model, each after a change."""
    model = Model(session, root)
    uris = {f"shards.{name}": each.uri for name, each in inputs.models.items()}
    return runs(session, inputs, model, named(query), model.columns(plain(query)), uris, way)


def by_sums(session: Any, inputs: Inputs, query: str, root: Path) -> Callable[[], None]:
    """The same by the model's sums, which are brought up to date first."""
    uris = {f"shards.{name}": each.uri for name, each in inputs.models.items()}
    known = KnownInputs(named(query), uris, SessionEngine(session))
    known.look()
    sums = sums_of(analysed(known))
    assert isinstance(sums, Sums)
    kept, model = Model(session, root / "sums", "in.sums"), Model(session, root)
    columns = kept.columns(References(known.look()).described(sums.query))
    shown = sums.shown("shards.sums", {column.name: column.type.text for column in columns})
    assert shown is not None
    steps = (
        runs(session, inputs, kept, sums.query, columns, uris),
        runs(
            session, inputs, model, shown, model.columns(plain(query)), {"shards.sums": kept.uri}, summed=True
        ),
    )

    def run() -> None:
        for step in steps:
            step()

    return run


def analysed(known: KnownInputs) -> Analysed:
    outcome = analyse(known.query, known.columns_of)
    assert isinstance(outcome, Analysed)
    return outcome


def runs(
    session: Any,
    inputs: Inputs,
    model: Model,
    named: str,
    columns: tuple[Column, ...],
    uris: Mapping[str, str],
    way: Incremental = Incremental.ALWAYS,
    *,
    summed: bool = False,
) -> Callable[[], Outcome]:
    never = way is Incremental.NEVER
    known = KnownInputs(named, uris, SessionEngine(session), never=never, summed=summed)

    def run() -> Outcome:
        request = model.request(
            named,
            columns=columns,
            time=T0 + inputs.round * inputs.every,
            references=References(known.look()),
            evidence=known,
            incremental=way,
            summed=summed,
        )
        with open_shard(model.uri, arrow_schema(columns)) as handle:
            outcome = Driver(request, handle, model.engine()).run()
        taken = {step: round(took, 2) for step, took in outcome.seconds.items()}
        print(f"[+{outcome.counts.inserted} -{outcome.counts.deleted} {taken}]", flush=True)
        return outcome

    return run


def main() -> None:
    """Measure the chosen steps and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=2, help="rounds that do not count")
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H: 1 is 6 million rows")
    parser.add_argument("--share", type=float, default=0.001)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument(
        "--where", nargs="*", default=["recent", "scattered"], choices=["recent", "scattered"]
    )
    parser.add_argument("--changing", nargs="*", default=["lineitem", "orders"], choices=list(CHANGED))
    parser.add_argument("--sums", action="store_true", help="the models keep their sums: those of TPC-H")
    parser.add_argument("--json", type=Path, help="append the figures to this file, a line each")
    arguments = parser.parse_args()
    session = start()
    make_tpch(session, TABLES, arguments.scale)
    for where in arguments.where:
        inputs = fresh(session, tuple(arguments.changing), where == "recent", arguments.share)
        try:
            for name in arguments.models:
                measure(session, inputs, name, where, arguments)
        finally:
            remove(inputs)


def fresh(session: Any, changing: tuple[str, ...], recent: bool, share: float) -> Inputs:
    """Inputs of which no row has changed yet, in a directory of their own."""
    return Inputs(session, Path(tempfile.mkdtemp(prefix="mvsink-bench-")), changing, recent, share)


def remove(inputs: Inputs) -> None:
    """Delete their directory, and the models below it."""
    shutil.rmtree(inputs.root, ignore_errors=True)


def measure(session: Any, inputs: Inputs, name: str, where: str, arguments: argparse.Namespace) -> None:
    """Print the figures of one model."""
    make = by_sums if arguments.sums else correction
    run = make(session, inputs, MODELS[name], inputs.root / name.replace(" ", "_"))
    run()
    took, reference = in_turn(
        arguments.rounds,
        run,
        lambda: rebuild(session, MODELS[name]),
        arguments.warm,
        inputs.change,
    )
    way = f"{where}, sums" if arguments.sums else where
    figure = Figure(name, way, arguments.share, arguments.scale, took, reference, arguments.rounds)
    print(f"\n{f'{name}, {way}':<32}{took:>9.2f}{reference:>9.2f}{figure.ratio:>8.2f}", flush=True)
    if arguments.json:
        figure.append_to(arguments.json)


def rebuild(session: Any, query: str) -> None:
    """What dbt's `table` materialization does on Spark."""
    session.sql("drop table if exists rebuilt")
    session.sql(f"create table rebuilt using parquet as {plain(query)}")


def plain(query: str) -> str:
    """The query over the tables as they were first."""
    return query.format(**{name: name for name in SHARDS})


if __name__ == "__main__":
    main()
