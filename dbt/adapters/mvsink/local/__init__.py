"""What this process computes with Arrow, where Spark would start jobs for little data.

A job of Spark takes 30 to 50 ms however little it reads, and every shuffle is one. So the rows of
small shards, and some rows of large ones, are read and added up here. The result is the one that
Spark would compute. Whatever cannot be done exactly here is left to Spark: then the result is None,
and nothing has happened.

- `rows`: how many rows fit, and rows that a condition finds in files
- `difference`: what makes the rows of a query of those of a shard, and whether a change fits it
- `copies`: files of a shard written again, negated or compacted

>>> from dbt.adapters.mvsink.engine import Column, parse_type
>>> from dbt.adapters.mvsink.local.rows import local_row_limit
>>> local_row_limit([Column("a", parse_type("int", "a"))])
50000
"""
