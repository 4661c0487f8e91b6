"""The errors of the sink, one class per kind.

Messages show the value and the allowed values; the dbt layer adds the model's name.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.engine import DataflowError
from dbt.adapters.mvsink.limits import DAY


class SchemaChanged(DataflowError):
    """The query's columns differ from the shard's and `on_schema_change` is `fail`."""

    error_code = "MVS-301"

    def __init__(self, changes: Sequence[str]):
        super().__init__(
            "the columns of the query differ from the shard's, and on_schema_change is 'fail': "
            + "; ".join(changes)
            + ". Allowed: 'sync_all_columns', 'append_new_columns', 'new_generation', or --full-refresh"
        )


class HistoryWouldEnd(DataflowError):
    """The query's columns differ from the shard's, so a new generation would begin, which would end
    more than a day of history: from ``since`` on, ``history`` ms long.
    """

    error_code = "MVS-302"

    def __init__(self, changes: Sequence[str], since: int, history: int):
        super().__init__(
            f"the columns of the query differ from the shard's: {'; '.join(changes)}. That needs a new generation, which would "
            f"end {history / DAY:.1f} days of history (from {iso(since)} on); nothing was written. Keep the columns in the query (cast a column "
            "to its old type, or give the new one another name), or set on_schema_change: new_generation, with which the present "
            "generation stays readable for `retain_history`. --full-refresh begins a new generation and ends the history"
        )


class NeverRefreshed(DataflowError):
    """A new shard whose schedule has no refresh left. ``last`` and ``now`` are ms."""

    error_code = "MVS-303"

    def __init__(self, last: int | None, now: int):
        super().__init__(
            f"the specified refreshes would never happen: the last one is at {last}, now is {now}"
        )
        self.last = last
        self.now = now


class UnknownColumn(DataflowError):
    """A config names a column that the query does not have."""

    error_code = "MVS-304"

    def __init__(self, option: str, value: str, allowed: Sequence[str]):
        super().__init__(f"{option}: got {value!r}, expected columns of the query: {', '.join(allowed)}")


class CannotBeIncremental(DataflowError):
    """`incremental: always`, and the correction does not follow from the changes of the inputs."""

    error_code = "MVS-305"

    def __init__(self, reason: str):
        super().__init__(
            f"`incremental` is always, but this run cannot be: {reason}. Nothing was written; with auto the query would be evaluated in full"
        )


class GateFailed(DataflowError):
    """The new contents must not be published: nothing was written."""


class MaxChangeExceeded(GateFailed):
    """A correction changes more than `max_change` allows."""

    error_code = "MVS-306"

    def __init__(self, model: str, change: str, broken: str):
        name, self.broken = model.rsplit(".", 1)[-1], broken
        super().__init__(
            f"it would change by {change}: {broken}. Nothing was written; --vars '{{mvsink_accept: [{name}]}}' lets it through"
        )


class AuditFailed(GateFailed):
    """The new contents fail audits; each is shown with some of the failing rows."""

    error_code = "MVS-307"

    def __init__(self, failures: Sequence[str]):
        listed = "".join(f"\n  {failure}" for failure in failures)
        super().__init__(f"the new contents fail their audit; nothing was written{listed}")
