"""The engine seam on DuckDB: what the package would have Spark run, run without Spark.

The text is Spark's; it is read by sqlglot and written in DuckDB's dialect. Where the two disagree
(what a sum of BIGINTs is, how files are named, which hash there is), the tree is changed first. So
a shard written here is not for Spark to read: the hashes are others. It is for many tiny cases of
what no engine decides: times, order, races, the shapes of deltas. That Spark does the same is for
the tests on Spark to say.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import product
from pathlib import Path
from uuid import uuid4

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from dbt.adapters.mvsink.engine import Engine, EngineError, sql

_OVERWRITE = re.compile(
    r"insert overwrite directory '([^']*)' using parquet(?: options\([^)]*\))?\s", re.IGNORECASE
)
_BRACES = re.compile(r"\{([^{}]*)\}")
_BY_DATA = (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException)


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """The process's; it holds nothing."""
    return duckdb.connect(config={"threads": 1})


class DuckEngine(Engine):
    """`Engine` on a connection of its own; remembers every statement it ran."""

    cores = 1  # 0: what could be done in this process is done by statements, too
    arrow_for: Collection[str] = ()  # the steps that get rows as Arrow, as in PySpark's sessions

    def __init__(self) -> None:
        self.connection = _database().cursor()
        self.connection.execute("set timezone = 'UTC'")
        self.ran: list[tuple[str, str]] = []

    def execute(self, statement: str, what: str) -> None:
        self.ran.append((what, statement))
        written = _OVERWRITE.match(statement)
        assert written is not None, statement
        directory = Path(written[1])
        directory.mkdir(parents=True, exist_ok=True)
        self._run(
            f"copy ({translated(statement[written.end() :])}) to '{directory}/part-{uuid4()}.parquet' (format parquet)"
        )

    def settings(self, wanted: Mapping[str, str]) -> AbstractContextManager[None]:
        return nullcontext()

    def query(self, query: str, what: str) -> list[tuple[object, ...]]:
        self.ran.append((what, query))
        if what == "explain":  # whether a query shuffles: here nothing does
            return []
        return self._run(translated(query)).fetchall()

    def arrow(self, query: str, what: str) -> pa.Table | None:
        if what not in self.arrow_for:
            return None
        self.ran.append((what, query))
        return self.connection.sql(translated(query)).to_arrow_table()

    def cores_here(self) -> int:
        return self.cores

    def same_plan(self, one: str, other: str, stand_ins: object) -> bool:
        """DuckDB does not show how Spark reads."""
        return True

    def columns(self, query: str) -> list[tuple[str, str]]:
        described = self._run(f"describe {translated(query)}").fetchall()
        return [
            (row[0], exp.DataType.build(row[1], dialect="duckdb").sql("spark").lower().replace(", ", ","))
            for row in described
        ]

    def _run(self, text: str) -> duckdb.DuckDBPyConnection:
        try:
            return self.connection.execute(text)
        except duckdb.Error as error:
            raise EngineError(
                str(error).split("\n")[0], "22000" if isinstance(error, _BY_DATA) else ""
            ) from error


def translated(query: str) -> str:
    """Spark's text as DuckDB's."""
    tree = sqlglot.parse_one(query.replace(sql.STRICT, ""), read="spark")
    for node in reversed(list(tree.walk())):  # the innermost first
        changed = _node(node)
        if changed is not node:
            node.replace(changed)
    return tree.sql("duckdb", copy=False)


def _node(node: exp.Expression) -> exp.Expression:
    if isinstance(node, exp.Table) and node.db == "parquet":
        files = exp.Array(expressions=[exp.Literal.string(path) for path in _files(node.name)])
        table = exp.Table(this=exp.Anonymous(this="read_parquet", expressions=[files]))
        table.set("alias", node.args.get("alias"))
        table.set("laterals", node.args.get("laterals"))
        table.set("joins", node.args.get("joins"))
        return table
    if (
        isinstance(node, exp.Table)
        and isinstance(node.this, exp.Anonymous)
        and node.this.name.lower() == "range"
    ):
        node.set("alias", exp.TableAlias(this=exp.to_identifier("range"), columns=[exp.to_identifier("id")]))
        return node
    if isinstance(node, exp.Lateral) and not node.args.get("view"):
        assert type(node.this) is exp.Explode, node
        return exp.Unnest(expressions=[node.this.this], alias=node.args["alias"])
    if isinstance(node, exp.TryCast):  # that is how a CAST of Spark's older dialect is read
        return exp.Cast(this=node.this, to=node.to)
    if isinstance(node, exp.Sum) and not isinstance(node.parent, exp.Window):
        return exp.cast(node.copy(), "bigint")
    if isinstance(node, exp.JSONFormat):
        return exp.Anonymous(this="to_json", expressions=[node.this])
    if isinstance(node, exp.Anonymous):
        return _call(node)
    if isinstance(node, exp.Select):
        node.set("hint", None)
        node.set("sort", None)  # within a task
    if isinstance(node, exp.Subquery) and not node.alias and _is_aliased(node.this):
        node.this.set("joins", node.args.get("joins"))
        return node.this  # DuckDB refuses parentheses around it
    return node


def _is_aliased(node: object) -> bool:
    """Whether it is a subquery or a table with an alias, and nothing else."""
    return isinstance(node, (exp.Subquery, exp.Table)) and bool(node.alias) and not node.args.get("joins")


def _call(node: exp.Anonymous) -> exp.Expression:
    name = node.name.lower()
    if name == "xxhash64":
        # NULLs are skipped
        joined = exp.Anonymous(this="concat_ws", expressions=[exp.Literal.string("|"), *node.expressions])
        hashed = exp.Anonymous(this="hash", expressions=[joined])
        shifted = exp.Paren(this=exp.BitwiseRightShift(this=hashed, expression=exp.Literal.number(1)))
        return exp.cast(shifted, "bigint")
    if name == "shiftrightunsigned":  # of our hashes, which are not negative here
        value, bits = node.expressions
        return exp.Paren(
            this=exp.BitwiseRightShift(this=exp.Paren(this=value.copy()), expression=bits.copy())
        )
    if name == "octet_length":
        return exp.Anonymous(this="strlen", expressions=node.expressions)
    if name == "raise_error":
        return exp.Anonymous(this="error", expressions=node.expressions)
    if name == "timestamp_millis":
        return exp.Anonymous(this="epoch_ms", expressions=node.expressions)
    if name == "spark_partition_id":
        return exp.Literal.number(0)
    if name == "monotonically_increasing_id":
        return sqlglot.parse_one("row_number() over ()", read="duckdb")
    return node


def _files(glob: str) -> list[str]:
    """The Parquet files that Hadoop would find."""
    paths = []
    for choice in _choices(glob):
        path = Path(choice.replace("\\", ""))
        paths += (
            [str(path)] if path.suffix == ".parquet" else sorted(str(file) for file in path.glob("*.parquet"))
        )
    return paths


def _choices(glob: str) -> list[str]:
    pieces = _BRACES.split(glob)
    options = [piece.split(",") if n % 2 else [piece] for n, piece in enumerate(pieces)]
    return ["".join(chosen) for chosen in product(*options)]
