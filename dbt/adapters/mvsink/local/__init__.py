"""What this process computes with Arrow, where Spark would start jobs for little data.

A Spark job takes 30 to 50 ms, however little it reads, and every shuffle is a job. So the rows of
small shards, and some rows of large ones, are read and added up here. The result is the one that
Spark would compute. Whatever cannot be done exactly here is left to Spark: then the result is None,
and nothing has happened.

- `rows`: how many rows fit, and rows that a condition finds in files
- `difference`: the updates that turn a shard's rows into a query's, and whether a change fits a
  shard
- `copies`: files of a shard written again, negated or compacted

>>> from dbt.adapters.mvsink.engine import Column, parse_type
>>> from dbt.adapters.mvsink.local.rows import local_row_limit
>>> local_row_limit([Column("a", parse_type("int", "a"))])
50000
"""
