"""What the footer of a data file says of its columns, for bounds in either format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow.parquet as pq


class FooterColumn(NamedTuple):
    """A column's schema in the file, and its statistics, one for each row group."""

    schema: Any
    statistics: list[Any]

    @property
    def nulls(self) -> int:
        """How many of its values are NULL."""
        return sum(each.null_count for each in self.statistics)


def columns_in(footer: pq.FileMetaData) -> Iterator[FooterColumn]:
    """The columns that are not below others and whose statistics are all known.

    A field of a struct has a path with dots, and so may a column have: `a.b` can be either.
    """
    for number in range(footer.num_columns):
        column = footer.schema.column(number)
        if column.path != column.name or column.max_repetition_level:
            continue
        chunks = [footer.row_group(group).column(number) for group in range(footer.num_row_groups)]
        known = [chunk.statistics for chunk in chunks if chunk.is_stats_set]
        if len(known) == len(chunks) and all(each.has_null_count for each in known):
            yield FooterColumn(column, known)
