"""Types of columns, and odd values of each, as SQL: what tables of any writer may hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from dbt.adapters.mvsink.engine import sql

TEXTS = (
    "", "a", "A", "b", "a,b", "{x}", "{a,b}", "it's", ' "q" ', "a b", " ", "a ", "%20", "%", "a%2Fb", "a=b", "a/b", "é", "e\u0301",
    "日本", "😀", "\\", "a\\nb", "null", "NULL", "*", "?", "[a]", "^", "a:b", ".x", "_x", "x\ny", "\t", "#", "+", "a+b", "true", "007",
    "1e3", "2020-01-01", "..", "$", "${x}", "&", ";", "|", "<>", "\x7f", "\u2028", "ß", "İ",
)  # fmt: skip
DAYS = (
    "1970-01-01", "2020-02-29", "2024-07-01", "0001-01-01", "1582-10-04", "1582-10-10", "1582-10-15", "1899-12-31", "9999-12-31",
    "+10000-01-01", "+12345-06-07", "-0044-03-15", "0000-01-01",
)  # fmt: skip
MOMENTS = (
    "1970-01-01 00:00:00", "2024-07-01 10:00:00", "2024-01-01 00:00:00.5", "2024-07-01 10:00:00.123456", "1969-12-31 23:59:59.999999",
    "2021-10-31 02:30:00", "2021-03-28 02:30:00", "1883-11-18 12:00:00", "1582-10-10 12:00:00", "0001-01-02 00:00:00.000001",
    "9999-12-31 23:59:59.999999", "1900-01-01 00:00:00", "2024-07-01 00:00:00", "+10000-01-02 03:04:05",
)  # fmt: skip
FLOATS = ("NaN", "-0.0", "0.0", "1.1", "1e30", "-1e-30", "Infinity", "-Infinity", "100", "0.1", "1E7")
SIGNED = ("0", "1", "-1", "7")


def _quoted(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(sql.text, texts))


# values of each type: they are cast to it
VALUES: Mapping[str, tuple[str, ...]] = {
    "string": _quoted(TEXTS),
    "date": _quoted(DAYS),
    "timestamp": (*_quoted(MOMENTS), *_quoted([f"{moment} UTC" for moment in MOMENTS[:6]])),
    "timestamp_ntz": _quoted(MOMENTS),
    "decimal(6,2)": _quoted(("0", "1.5", "-1.50", "9999.99", "0.01")),
    "decimal(38,18)": _quoted(("0", "1", "-12345678901234567890.1", "0.100000000000000000")),
    "boolean": ("true", "false"),
    "tinyint": (*SIGNED, "127", "-128"),
    "smallint": (*SIGNED, "-32768"),
    "int": (*SIGNED, "2147483647", "-2147483648"),
    "bigint": (*SIGNED, "9223372036854775807", "cast('-9223372036854775808' as bigint)"),
    "binary": ("X''", "X'00'", "X'61'", "X'ff61'", "X'c3a9'", "X'2c7b'"),
    "float": _quoted(FLOATS),
    "double": _quoted((*FLOATS, "1e300", "0.30000000000000004")),
    "array<int>": ("array()", "array(1, null)", "array(2, 1)"),
    "struct<a:int,b:string>": ("struct(1, 'x')", "struct(null, '')", "named_struct('a', 2, 'b', null)"),
    "map<string,int>": ("map()", "map('k', 1)", "map('k', null, 'l', 2)"),
    "char(5)": _quoted(("a", "abc", "é", "a b", "12345")),
    "varchar(6)": _quoted(("a", "a ", "abcdef", "")),
}
NESTED = tuple(kind for kind in VALUES if "<" in kind)
PADDED = ("char(5)", "varchar(6)")
ATOMIC = tuple(kind for kind in VALUES if kind not in NESTED + PADDED)
NAMES = ("p", "Day", "é", "select", "a-b", "p.q", "x`y", "_p", "Region_ID", "date", "mv_time", "key")


@dataclass(frozen=True)
class Field:
    """A column. ``values``: those that its rows have."""

    name: str
    kind: str
    values: tuple[str, ...]

    @property
    def quoted(self) -> str:
        return sql.identifier(self.name)

    @property
    def declared(self) -> str:
        return f"{self.quoted} {self.kind}"

    def value(self, random: Random) -> str:
        """One of its values, of its type."""
        return f"cast({'null' if random.random() < 0.15 else random.choice(self.values)} as {self.kind})"


def fields(
    random: Random, partition_kinds: Sequence[str], value_kinds: Sequence[str], most: int = 2
) -> tuple[list[Field], list[str]]:
    """Columns of a table, and the names of those that it is partitioned by: `id`, up to ``most`` of
    ``partition_kinds``, and one of ``value_kinds``.
    """
    names = random.sample(NAMES, most)
    partitions = [
        _field(random, name, random.choice(partition_kinds)) for name in names[: random.randint(0, most)]
    ]
    value = _field(random, "v", random.choice(value_kinds))
    columns = [Field("id", "bigint", tuple(map(str, range(12)))), *partitions, value]
    if random.random() < 0.5:
        random.shuffle(columns)
    return columns, [each.name for each in partitions]


def _field(random: Random, name: str, kind: str) -> Field:
    values = VALUES[kind]
    return Field(name, kind, tuple(random.sample(values, min(len(values), random.randint(2, 6)))))


def rows(random: Random, columns: Sequence[Field], count: int, distinct: bool = False) -> str:
    """A query of ``count`` rows, some of them equal; ``distinct``: of different ids."""
    made: list[str] = []
    ids = random.sample(range(30), count)
    for number in range(count):
        if made and not distinct and random.random() < 0.25:
            made.append(random.choice(made))
            continue
        values = (
            f"{ids[number]}L" if each.name == "id" and distinct else each.value(random) for each in columns
        )
        made.append(f"select {', '.join(f'{value} as {c.quoted}' for value, c in zip(values, columns))}")
    return "\nunion all\n".join(made)
