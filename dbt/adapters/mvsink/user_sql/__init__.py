"""Reading and changing the user's SQL by its tokens. Knows no dbt and no Spark.

- `words`: a text as tokens with positions
- `splice`: finding and replacing relations, merging WITH clauses
- `marks`: `mv_now()` and what `mv_as_of` and `mv_updates` render to
- `checks`: closing semicolons, column names
- `determinism`, `functions`: whether a result follows from the text and the inputs alone
- `deciding_rows`: which rows decide a test
"""
