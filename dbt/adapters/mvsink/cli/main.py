"""`mvsink`: the entry point."""

from __future__ import annotations

import click

from dbt.adapters.mvsink.__version__ import version
from dbt.adapters.mvsink.cli.history import history
from dbt.adapters.mvsink.cli.status import status

COMMANDS = (status, history)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version, prog_name="mvsink")
def cli() -> None:
    """Look at the shards of a dbt project.

    Run it where you run dbt: it takes the same --project-dir, --profiles-dir, --profile and --target. It reads the shards' logs
    and nothing else: no Spark is started, and a running `dbt run` is not disturbed.
    """


for command in COMMANDS:
    cli.add_command(command)
