"""A shard's log as a product: points in time, and what its history answers.

`points` resolves the times that users write (ISO 8601, invocation ids, `-1`, `latest`) against a
shard's state and commits. Everything here is pure: states, commits and layouts in, values and SQL
text out.

Invariants:

- A point is a time in the shard's readable history ``[since, upper)``, or an error that names both
  bounds and the config that keeps more.
- A generation is a wall: nothing before its first commit can be addressed.
"""
