"""Reading and changing the user's SQL by its tokens. Knows no dbt and no Spark.

- `words`: a text as tokens with positions
- `splice`: finding and replacing relations, merging WITH clauses
- `checks`: nondeterministic functions, closing semicolons, column names
"""
