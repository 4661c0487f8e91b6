"""What a shard's log can answer: points in time, differences, versions and authors of rows.

`points` resolves the times that users write (ISO 8601, invocation ids, `-1`, `latest`) against a
shard's state and commits. Everything here is pure: states, commits and layouts in, values and SQL
text out.

Invariants:

- A point is a time in the shard's readable history ``[since, upper)``, or an error that names both
  bounds and the config that keeps more.
- Nothing before the first commit of the newest generation can be addressed.
"""
