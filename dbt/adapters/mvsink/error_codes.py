"""Stable codes of errors: `MVS-nnn`, printed with the message and explained in docs/errors.md.

A class of errors has its code as ``error_code = "MVS-nnn"``. That is all: `Coded` prints it where
dbt shows the error, `cli/errors.py` where `mvsink` does. A class without one is a root that is
never raised, or is caught within the package. The first digit is the part of the package:

```
0  a defect of the package     3  sink                5  continual_task      7  profile, connection
1  models, configs, macros     4  inputs, references  6  engine, user_sql    8  history, cli
2  shard, shard_sql, published
```

A code never changes and is never used again. `tests/unit/test_error_codes.py` holds the classes and
the entries of docs/errors.md to each other.
"""

from __future__ import annotations

from typing import Any

from dbt.adapters.mvsink.spark_words import SparkWords, shown

INTERNAL = "MVS-001"


def internal(doing: str, error: BaseException, where: str) -> str:
    """The message about an exception that nothing in the package expects. ``where`` has more.

    >>> print(internal("running s.orders", KeyError("*"), "the traceback above"))
    a defect of dbt-mvsink while running s.orders: KeyError: '*'
      Please report it to the authors of dbt-mvsink, with the model's SQL and the traceback above
    """
    return (
        f"a defect of dbt-mvsink while {doing}: {type(error).__name__}: {error}\n"
        f"  Please report it to the authors of dbt-mvsink, with the model's SQL and {where}"
    )


def code_of(error: BaseException | None) -> str:
    """The code of ``error``; empty if it is not of a class that has one."""
    return str(getattr(error, "error_code", ""))


class Coded:
    """Mixin of dbt's errors. What dbt prints of one begins with a line like `Runtime Error in model
    m`, which shows the code.

    >>> from dbt_common.exceptions import DbtRuntimeError
    >>> class NoLuck(Coded, DbtRuntimeError):
    ...     error_code = "MVS-000"
    >>> print(NoLuck("the reason"))
    Runtime Error MVS-000
      the reason
    """

    error_code = ""
    spark: SparkWords | None = None  # what Spark said, if it is at the bottom of this

    def process_stack(self) -> list[str]:
        """dbt's last lines about an error, behind the place in the model's files."""
        own: Any = super()
        lines = [] if self.spark is None else list(shown(self.spark, getattr(self, "node", None)))
        return [*lines, *own.process_stack()]

    def __str__(self, *arguments: Any) -> str:
        text = super().__str__(*arguments)
        first, *rest = text.split("\n", 1)
        coded = first.replace(" Error", f" Error {self.error_code}", 1) if self.error_code else first
        return "\n".join([coded, *rest])
