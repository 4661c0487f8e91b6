"""The key of a model, as dbt's manifest has it: from its contract, or from its tests.

Nothing relies on its being unique: rows are paired only where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

UNIQUE_TESTS = {"unique": "column_name", "unique_combination_of_columns": "combination_of_columns"}


@dataclass(frozen=True)
class ModelKey:
    """``columns``, and the ``source`` that says so, in words."""

    columns: tuple[str, ...]
    source: str


def named_columns(options: Iterable[str], columns: Iterable[str]) -> list[str]:
    """The columns that ``--key`` options name: ``a,b`` is two unless it is the name of one."""
    whole = {column.lower() for column in columns}
    split = ([option] if option.lower() in whole else option.split(",") for option in options)
    return [name.strip() for names in split for name in names]


def known_key(manifest: Any, unique_id: str, columns: Iterable[str]) -> ModelKey | None:
    """The first key whose columns are all among ``columns``: a primary key, then other unique
    constraints, then tests of one column, then of several.
    """
    node = manifest.nodes.get(unique_id)
    allowed = {column.lower() for column in columns}
    candidates = [] if node is None else [*_constraints(node), *_tests(manifest, unique_id)]
    fitting = (key for key in candidates if key.columns and {name.lower() for name in key.columns} <= allowed)
    return next(fitting, None)


def _constraints(node: Any) -> Sequence[ModelKey]:
    listed = [(each, tuple(each.columns)) for each in getattr(node, "constraints", None) or ()]
    for name, column in (getattr(node, "columns", None) or {}).items():
        listed += [(each, (name,)) for each in getattr(column, "constraints", None) or ()]
    kinds = {"primary_key": "primary key", "unique": "unique constraint"}
    keys = [
        ModelKey(columns, kinds[kind])
        for each, columns in listed
        if (kind := str(getattr(each.type, "value", each.type))) in kinds
    ]
    return sorted(keys, key=lambda key: key.source != kinds["primary_key"])


def _tests(manifest: Any, unique_id: str) -> Sequence[ModelKey]:
    return sorted(_unique_tests(manifest, unique_id), key=lambda key: (len(key.columns), key.source))


def _unique_tests(manifest: Any, unique_id: str) -> Iterator[ModelKey]:
    """Tests of only some rows (`where`) are none."""
    for node in manifest.nodes.values():
        metadata = getattr(node, "test_metadata", None)
        if metadata is None or getattr(node, "attached_node", None) != unique_id or node.config.where:
            continue
        columns = metadata.kwargs.get(UNIQUE_TESTS.get(metadata.name))
        if columns:
            listed = (columns,) if isinstance(columns, str) else tuple(columns)
            yield ModelKey(tuple(name.strip("`") for name in listed), f"test {node.name}")
