"""The entry point of the command `mvsink`, with its subcommands."""

from __future__ import annotations

from importlib import import_module

import click

from dbt.adapters.mvsink.__version__ import version
from dbt.adapters.mvsink.cli.dbt_options import repeated

MODULES = {  # of `cli.commands`
    "status": "status",
    "metrics": "metrics",
    "history": "history",
    "diff": "diff",
    "blame": "blame",
    "subscribe": "subscribe",
    "plan": "plan",
    "explain": "explain",
    "watch": "watch",
    "hold": "hold",
    "release": "hold",
    "rewind": "hold",
    "undo": "undo",
    "drop": "drop",
    "session": "sessions",
}


class Commands(click.Group):
    """Imports a command when it is called: what runs dbt and Spark takes seconds to import."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(MODULES)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in MODULES:
            return None
        module = import_module(f"dbt.adapters.mvsink.cli.commands.{MODULES[name]}")
        command: click.Command = getattr(module, name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, repeated(rest)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version, prog_name="mvsink")
def cli() -> None:
    """Inspect the shards of a dbt project, and keep them up to date.

    Run it where you run dbt: it takes the same --project-dir, --profiles-dir, --profile and
    --target. status, metrics, history and subscribe only read shards: they start no Spark and do
    not disturb a running `dbt run`; nor do hold, release and rewind, which commit to a shard's log.
    Nor does blame, if it can answer from the files. diff, plan, explain, watch, undo and drop run
    dbt. session keeps a Spark for them, and for dbt.
    """


if __name__ == "__main__":
    cli()
