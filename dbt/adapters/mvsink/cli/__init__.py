"""The command `mvsink`: what shards hold and who wrote them, told by their logs alone.

```
 main      the command, with one line for each command of it
 status, history      one module a command: values first (pure, or one log read), then its click command
 project   which project and target, and where its shards are: dbt's own options and profile, no connection
 shards    finding shards below that place, opening them, choosing among them
 output    a table for people, JSON for programs
```

No command in here starts Spark, imports it, or loads dbt's adapter. A further command is a further module and a line in `main`.
"""
