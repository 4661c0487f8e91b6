"""The command `mvsink`: what shards hold and who wrote them, told by their logs alone.

```
 main      the command, with one line for each command of it
 status, history      one module a command: values first (pure, or one log read), then its click command
 plan, watch, drop    the same for commands that run dbt, and so Spark, in this process
 dbt_runs             dbt, quiet, with its results as values
 looks                what a model reads, found out once, and cheap looks at whether that has changed
 project   which project and target, and where its shards are: dbt's own options and profile, no connection
 shards    finding shards below that place, opening them, choosing among them
 output    a table for people, JSON for programs
```

But for `plan`, `watch` and `drop`, no command starts Spark, imports it, or loads dbt's adapter. A
further command is a further module and a line in `main`.
"""
