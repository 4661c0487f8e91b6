"""One dbt run of one model, in dbt's terms: its options, definition, published view and response.

`context` is what a run knows before it begins. `run` has its phases; `mv` and `task` have what the
two materializations do differently. The work itself is in `sink` and `continual_task`; `adapter`
has the methods that macros call.
"""
