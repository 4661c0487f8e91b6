"""The values of a unit test's rows as SQL, in the types of their columns.

{at: 2026-01-02, who: it's}             texts and numbers, cast to the column's type
{s: {a: 1, b: [x]}}                     a struct, a map or an array as YAML has it
{s: '{"a": 1}'}                         the same as JSON, which CSV can have, too
{s: "named_struct('a', 1)"}             and as SQL, which dbt-spark knows
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.engine.errors import UnsupportedType
from dbt.adapters.mvsink.engine.types import SparkType, parse_type
from dbt.adapters.mvsink.exceptions import InvalidFixtureValue

NESTED = ("struct<", "array<", "map<")


def fixture_value(column: str, value: Any, kind: str) -> str:
    """``value`` of ``column`` as SQL of the type ``kind``, as DESCRIBE spells it. Raises
    `InvalidFixtureValue`.
    """
    if not kind.lower().startswith(NESTED):
        return _cast(_atom(column, value, kind), kind)
    try:
        nested = parse_type(kind, column)
    except UnsupportedType:
        nested = None
    spelled = kind if nested is None else nested.spelled
    if isinstance(value, str):
        written = _from_json(value)
        if written is None:
            return _cast(value, spelled)
        value = written
    if value is not None and nested is None:
        raise InvalidFixtureValue(
            column, value, kind, "SQL, because of a type within that tables do not have"
        )
    return _cast("null" if value is None or nested is None else _nested(column, value, nested), spelled)


def _cast(value: str, kind: str) -> str:
    return f"cast({value} as {kind})"


def _atom(column: str, value: Any, kind: str) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | Decimal) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    if isinstance(value, Mapping | list | tuple):
        raise InvalidFixtureValue(column, value, kind, "one value")
    return sql.text(str(value))


def _nested(column: str, value: Any, kind: SparkType) -> str:
    """``value`` as an expression whose parts have the types that they have in ``kind``."""
    if value is None:
        return f"cast(null as {kind.spelled})"
    if kind.name == "struct":
        return _struct(column, value, kind)
    if kind.name == "array":
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise InvalidFixtureValue(column, value, kind.text, "a list")
        return f"array({', '.join(_nested(column, each, kind.inner[0]) for each in value)})"
    if kind.name == "map":
        if not isinstance(value, Mapping):
            raise InvalidFixtureValue(column, value, kind.text, "a mapping")
        pairs = (_nested(column, part, inner) for pair in value.items() for part, inner in zip(pair, kind.inner, strict=True))  # fmt: skip
        return f"map({', '.join(pairs)})"
    return _cast(_atom(column, value, kind.text), kind.spelled)


def _struct(column: str, value: Any, kind: SparkType) -> str:
    names = [field.name for field in kind.fields]
    if not isinstance(value, Mapping) or {str(key).lower() for key in value} - set(map(str.lower, names)):
        raise InvalidFixtureValue(column, value, kind.text, f"a mapping with {', '.join(names)}")
    fields = {str(key).lower(): each for key, each in value.items()}
    items = (
        f"{sql.text(field.name)}, {_nested(f'{column}.{field.name}', fields.get(field.name.lower()), field.type)}"
        for field in kind.fields
    )
    return f"named_struct({', '.join(items)})"


def _from_json(text: str) -> Any:
    """The value that ``text`` is as JSON; None if it is not a mapping or a list."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text, parse_float=Decimal)
    except ValueError:
        return None
