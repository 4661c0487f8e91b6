"""Continual tasks: a trigger for tables. For every time at which its input changed, a task's
statements run over just that change.

```
   the model's text                                  the input's shard
         |                                                  | rows inserted / deleted at w      (pending time w, in order)
      +-------+   Program    +------+   bind    +-----------v-----------+
      | parse |------------->| plan |---------->|   execute, for each w |<--- references as of w
      +-------+  statements  +------+  deltas   |                       |
                                                |  this := the output   |<--- the output's shard just before w
                                                |  in groups that do not|
                                                |  read each other:     |
                                                |    delta  := its SQL  |     columns + _mv_diff
                                                |    this   += delta    |
                                                |  consolidate deltas   |
                                                +-----------+-----------+
                                                            | one append [upper, w + 1), updates at w, with
                                                            v the progress on the input in the same commit
                                                     the output's shard
```

What a name in the task's text means while it runs at `w`: the *input* is the rows inserted at `w`,
`mv_deletes(input)` the rows deleted at `w`, *this* the output with what earlier statements of the
same run did, `mv_now()` is `w`, and any other relation is a *reference*, read in full. Where every
output row comes from one row of the input, all pending times can be one job (`stateless`).

- `statements`: a task as values; every expression is the user's own text
- `parse`, `cursor`, `merge_syntax`: from the text to these values, by tokens; all that is wrong
  with a text is said here
- `columns`: the output's columns, and whether the statements fit them
- `plan`, `changes`, `stateless`: from the values to SQL
- `execute`: the loop over pending times; `effects`: runs the statements of one. The only parts that
  run anything

Invariants: a delta reads nothing but its bindings; nothing is written before every statement has
been parsed and analysed; the planning half imports neither dbt's core nor Spark.
"""
