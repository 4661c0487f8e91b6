"""The command `mvsink`: what shards contain and who wrote them, from their logs alone.

```
 main           the group of commands, with one line for each; each is imported when it is called
 commands/      what a command finds, as its JSON, then the click command
 target         the project and target, and where its shards are
 dbt_options    dbt's options, without dbt
 plain_profile  reads the project's target without dbt where that is the same; dbt_profile by dbt
 discovery      finding shards below that place, selecting them, reading their history
 render         the printer: text or a table for people, Markdown, JSON for programs
 dbt_runner     dbt in this process, quiet, with its results as values
 comparison     two shards at two times, for `diff` and `plan --against`
 rehearsal      a run in temporary schemas, for `plan --against`
 scheduler      which models `watch` runs, and when
 status_table   what `status` and `metrics` show of a shard
 update_formats ndjson, CSV and Arrow for streams of updates
```

A command passes all of its output to the `Printer` that `--output` chose. A new command is a new
module and a line in `main`.
"""
