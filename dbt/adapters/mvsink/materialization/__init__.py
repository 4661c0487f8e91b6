"""A run of a maintained model, in dbt's terms: its configs, its definition, its published view,
what the run reports.

`adapter` is what the materialization's macros call; `run` is the order in which things happen. The
work itself is in `sink`.
"""
