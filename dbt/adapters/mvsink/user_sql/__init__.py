"""Reads and changes the user's SQL by its tokens. It knows no dbt and no Spark.

- `words`: a text as tokens with positions. `tokens`: the same with matching parentheses
- `reader` (with `grouping`): a query as blocks, set operators and FROM trees, with spans;
  `algebra`: their classes; `trees`: the tree of every expression
- `splice`: finding and replacing relations, merging WITH clauses
- `marks`: `mv_now()` and what `mv_as_of` and `mv_updates` render to
- `functions`: Spark's own functions, and what is known about each. `checks`: whether a result
  follows from the text and the inputs alone; closing semicolons, column names
- `deciding_rows`: which rows decide a test
"""
