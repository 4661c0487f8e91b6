"""The entry point of the command `mvsink`, with its subcommands."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from keyword import iskeyword

import click

from dbt.adapters.mvsink.__version__ import version
from dbt.adapters.mvsink.cli.dbt_options import repeated
from dbt.adapters.mvsink.cli.errors import CodedError, Defect, WrongUsage, failed

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
    "import": "import_table",
    "rename": "rename",
    "purge": "purge",
    "drop": "drop",
    "session": "sessions",
}


COLLECT_EVERY = 200_000  # new objects: modules and a manifest have a million that stay


@dataclass
class Ending:
    """The end of a process. To free all modules and objects of dbt and Spark one by one takes
    Python most of a second.
    """

    status: int | None = None  # an exit code; None after an error, which Python reports

    def at_once(self) -> None:
        """End the process, where there is nothing to report. Called when threads have ended and
        other handlers have done their work.
        """
        if self.status is None:
            return
        logging.shutdown()  # a handler of its own, which is called after this one
        with suppress(OSError, ValueError):  # of a closed pipe, which Python reports
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.status)


class Commands(click.Group):
    """Imports a command when it is called: what runs dbt and Spark takes seconds to import."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(MODULES)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in MODULES:
            return None
        module = import_module(f"dbt.adapters.mvsink.cli.commands.{MODULES[name]}")
        command: click.Command = getattr(module, f"{name}_" if iskeyword(name) else name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Call the command. What click itself refuses, and what nothing expects, gets a code."""
        try:
            return super().invoke(ctx)
        except (CodedError, click.exceptions.Exit, click.Abort, KeyboardInterrupt, BrokenPipeError):
            raise
        except click.UsageError as error:
            raise WrongUsage(error.format_message(), ctx=error.ctx) from error
        except (click.ClickException, OSError) as error:  # a disk that is full
            raise failed(error) from error
        except Exception as error:
            traceback.print_exc()
            raise Defect(ctx.command_path, error) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        close = [] if args[0] in MODULES else get_close_matches(args[0], MODULES, 1)
        if close and not ctx.resilient_parsing:
            raise WrongUsage(f"No such command '{args[0]}'. Did you mean '{close[0]}'?", ctx=ctx)
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, repeated(rest)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version, prog_name="mvsink")
def cli() -> None:
    """Inspect the shards of a dbt project, and keep them up to date.

    Run it where you run dbt: it takes the same --project-dir, --profiles-dir, --profile and
    --target. status, metrics, history and subscribe only read shards: they start no Spark and do
    not disturb a running `dbt run`; nor do hold, release and rewind, which commit to a shard's log.
    Nor does blame, if it can answer from the files. diff, plan, explain, watch, undo, import and
    drop run dbt. session keeps a Spark for them, and for dbt.
    """


def main() -> None:
    """Run the command as a process of its own, which ends with it."""
    gc.set_threshold(COLLECT_EVERY)
    ending = Ending()
    atexit.register(ending.at_once)  # before any other, so it is the last to be called
    try:
        cli()
    except SystemExit as end:
        ending.status = 0 if end.code is None else end.code if isinstance(end.code, int) else None
        raise


if __name__ == "__main__":
    main()
