"""The command `mvsink`: what shards contain and who wrote them, from their logs alone.

```
 main           the group of commands, with one line for each
 commands/      one module per command: plain values first, then the click command
 dbt_runner     dbt in this process, quiet, with its results as values
 scheduler      which models `watch` runs, and when
 target         the project and target, and where its shards are: dbt's own options and profile
 update_formats ndjson, CSV and Arrow for streams of updates
 discovery      finding shards below that place, opening and selecting them
 render         a table for people, JSON for programs
```

Only `plan`, `watch` and `drop` run dbt, and with it Spark. A new command is a new module and a line
in `main`.
"""
