"""One dbt run of one model, in dbt's terms: its options, definition, published view, response.

`context` is what a run knows before it begins; `run` holds its phases, `mv` and `task` what the two
materializations do in their own way. The work itself is in `sink` and `continual_task`; `adapter`
has the methods that macros call.
"""
