"""The entry point of the command `mvsink`, with its subcommands."""

from __future__ import annotations

import click

from dbt.adapters.mvsink.__version__ import version
from dbt.adapters.mvsink.cli.commands.blame import blame
from dbt.adapters.mvsink.cli.commands.diff import diff
from dbt.adapters.mvsink.cli.commands.drop import drop
from dbt.adapters.mvsink.cli.commands.explain import explain
from dbt.adapters.mvsink.cli.commands.history import history
from dbt.adapters.mvsink.cli.commands.hold import hold, release, rewind
from dbt.adapters.mvsink.cli.commands.metrics import metrics
from dbt.adapters.mvsink.cli.commands.plan import plan
from dbt.adapters.mvsink.cli.commands.status import status
from dbt.adapters.mvsink.cli.commands.subscribe import subscribe
from dbt.adapters.mvsink.cli.commands.undo import undo
from dbt.adapters.mvsink.cli.commands.watch import watch

COMMANDS = (
    status, metrics, history, diff, blame, subscribe, plan, explain, watch, hold, release, rewind, undo,
    drop,
)  # fmt: skip


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version, prog_name="mvsink")
def cli() -> None:
    """Inspect the shards of a dbt project, and keep them up to date.

    Run it where you run dbt: it takes the same --project-dir, --profiles-dir, --profile and
    --target. status, metrics, history and subscribe only read shards: they start no Spark and do
    not disturb a running `dbt run`; nor do hold, release and rewind, which commit to a shard's log.
    Nor does blame, if it can answer from the files. diff, plan, explain, watch, undo and drop run
    dbt.
    """


for command in COMMANDS:
    cli.add_command(command)


if __name__ == "__main__":
    cli()
