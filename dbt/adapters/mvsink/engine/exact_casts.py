"""Which casts of Spark keep every value: of a column that got another type, what was stored before
can then be read as the new type.
"""

from __future__ import annotations

from dbt.adapters.mvsink.engine.types import SparkType

INTEGERS = ("tinyint", "smallint", "int", "bigint")
EXACT_DOUBLES = ("tinyint", "smallint", "int", "float")  # a double has their values
_CASTS = {("date", "timestamp_ntz")}


def cast_is_exact(old: SparkType, new: SparkType) -> bool:
    """Whether every value of the type ``old`` is the same value in ``new``, another for each.

    >>> from dbt.adapters.mvsink.engine.types import parse_type
    >>> def check(old, new): return cast_is_exact(parse_type(old, ""), parse_type(new, ""))
    >>> check("int", "bigint"), check("bigint", "int"), check("float", "double")
    (True, False, True)
    >>> check("decimal(5,2)", "decimal(7,3)"), check("decimal(5,2)", "decimal(5,3)")
    (True, False)
    >>> check("int", "decimal(10,0)"), check("string", "int"), check("bigint", "double")
    (True, False, False)
    """
    if old.text == new.text or (old.name, new.name) in _CASTS:
        return True
    if old.name in INTEGERS and new.name in INTEGERS:
        return INTEGERS.index(old.name) < INTEGERS.index(new.name)
    if new.name == "double":
        return old.name in EXACT_DOUBLES
    before, after = _digits(old), _digits(new)
    if before is None or after is None or new.name != "decimal":
        return False
    return before[0] <= after[0] and before[1] <= after[1]


def keeps_values(old: SparkType, new: SparkType) -> bool:
    """The same where fields of structs go by their names, at any depth: fields may come and go.

    >>> from dbt.adapters.mvsink.engine.types import parse_type
    >>> def check(old, new): return keeps_values(parse_type(old, ""), parse_type(new, ""))
    >>> check("struct<a:int,b:date>", "struct<B:date,c:int,a:bigint>")
    True
    >>> check("array<int>", "array<bigint>"), check("array<bigint>", "array<int>")
    (True, False)
    >>> check("map<string,int>", "map<string,bigint>"), check("map<int,int>", "map<bigint,int>")
    (True, False)
    """
    if old == new:
        return True
    if old.name == new.name == "struct":
        kept = {field.name.lower(): field.type for field in old.fields}
        return all(
            keeps_values(kept[field.name.lower()], field.type)
            for field in new.fields
            if field.name.lower() in kept
        )
    if old.name == new.name == "array":
        return keeps_values(old.inner[0], new.inner[0])
    if old.name == new.name == "map":
        return old.inner[0] == new.inner[0] and keeps_values(old.inner[1], new.inner[1])
    return not old.nested and not new.nested and cast_is_exact(old, new)


def _digits(kind: SparkType) -> tuple[int, int] | None:
    """How many digits values of the type may have before and after the point; None for other
    types.
    """
    if kind.name in INTEGERS:
        return (3, 5, 10, 19)[INTEGERS.index(kind.name)], 0
    if kind.name != "decimal":
        return None
    precision, scale = (int(part) for part in kind.text.removeprefix("decimal(").removesuffix(")").split(","))
    return precision - scale, scale
