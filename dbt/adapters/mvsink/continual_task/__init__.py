"""Continual tasks: triggers for tables. A task's statements run over each change of its input.

```
   the model's text                        the input's shard
         |                                        | rows inserted / deleted at w, for pending w
      +-------+  Program    +------+  bind   +----v-----------------+
      | parse |------------>| bind |-------->| driver, for each w   |<--- references as of w
      +-------+  statements +------+  deltas |                      |
                                             |  this := the output  |<--- the output just before w
                                             |  in groups that do   |
                                             |  not read each other:|
                                             |    delta  := its SQL |     columns + _mv_diff
                                             |    this   += delta   |
                                             |  consolidate deltas  |
                                             +----+-----------------+
                                                  | one append [upper, w + 1): updates at w,
                                                  v progress on the input in the same commit
                                           the output's shard
```

Names in the task's text mean the following while it runs at `w`: the *input* is the rows inserted
at `w`, `mv_deletes(input)` the rows deleted at `w`, *this* the output with the effects of earlier
statements of the same run, `mv_now()` is `w`, and any other relation is a *reference*, read in
full. If every output row comes from one row of the input, all pending times can be one job
(`carry_time`).

- `statements`: a task as values; every expression is the user's own text
- `parse`, `token_cursor`, `merge_syntax`: from the text to these values, by tokens; all syntax
  errors of a task are raised here
- `columns`: the output's columns, and whether the statements fit them
- `bind`, `row_deltas`, `carry_time`: from the values to SQL
- `task_driver`: the loop over pending times, with `task_input` and `commits`
- `effects`: runs the statements of one time; for unit tests, the whole task as one query

Invariants: a delta reads only its bindings; nothing is written before every statement has been
parsed and analysed; the planning half imports neither dbt's core nor Spark.
"""
