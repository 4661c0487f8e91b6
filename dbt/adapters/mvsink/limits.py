"""The sizes that decide how a run computes, each with its unit and where the figure is from.

Tests move them by ``monkeypatch.setattr(limits, ...)``, so they are read as ``limits.NAME``.
"""

from __future__ import annotations

# What may be computed from the changes of the inputs (benchmarks.choice, docs/performance.md):
# Changes of an input, of which a replaced row is two, as a share of its rows; beyond, evaluating
# the query costs less. Where it groups, all rows with the key of one that changed are read again.
MAX_CHANGED = 0.1
MAX_CHANGED_LINEAR = 0.4
# Keys that may differ, as a share of the shard's rows; beyond, all rows are compared.
MAX_KEYS = 0.2
# Rows of a shard. As many are not compared because all of them may differ.
MANY_ROWS = 100_000
# Bytes of all that a query reads: evaluated, it is a Spark job or two.
SMALL_BYTES = 32 * 1024 * 1024
# Seconds. An incremental run of a model that is not small takes 0.5 or more.
QUICK_EVALUATION = 0.8

# What runs remember of their predecessors, in commits.
REMEMBERED = 20
# Of the seconds that evaluating the query takes: an incremental run that takes less is worthwhile.
WORTHWHILE = 0.8
