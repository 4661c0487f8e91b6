"""Has the commits of a dbt command record who runs it (`authors`)."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import PurePath

from dbt.adapters.mvsink.authors import author, shown_command
from dbt.adapters.mvsink.connections import command_of_dbt, project_of_dbt
from dbt.adapters.mvsink.credentials import MvsinkCredentials, when_read
from dbt.adapters.mvsink.shard import authored_by

PROGRAMS = ("dbt", "mvsink")


def install() -> None:
    """Do so for each profile that dbt reads from now on."""
    when_read(_record)


def _record(credentials: MvsinkCredentials) -> None:
    if credentials.record_author:
        authored_by(partial(author, project_of_dbt(), _command_line()))
    else:
        authored_by(dict)


def _command_line() -> str:
    """The command line; of another program that calls dbt only dbt's command."""
    program = PurePath(sys.argv[0]).stem
    if program in PROGRAMS:
        return shown_command(program, sys.argv[1:])
    return f"dbt {command_of_dbt()}".strip()
