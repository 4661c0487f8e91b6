"""A run of a `continual_task`, in dbt's terms. Its language and its execution are in `continual_task`; `maintained` is what it shares with views."""
