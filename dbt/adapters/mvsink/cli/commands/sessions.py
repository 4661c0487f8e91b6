"""`mvsink session start | stop | status`: a Spark that stays, for the commands of one project on
this machine (`connection.warm_sessions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.cli.dbt_profile import credentials_of
from dbt.adapters.mvsink.cli.dbt_runner import Dbt
from dbt.adapters.mvsink.cli.discovery import progress
from dbt.adapters.mvsink.cli.errors import SessionInUse, WrongUsage, failed
from dbt.adapters.mvsink.cli.render import Printer, TableColumn, ago_text, takes_output
from dbt.adapters.mvsink.cli.target import Target, takes_dbt
from dbt.adapters.mvsink.connection.warm_sessions import IDLE, WarmPlace, clients, places, start, stop
from dbt.adapters.mvsink.profile_keys import SESSION

KNOWN = (
    "process",
    "remote",
    "token_file",
    "pyspark",
    "dbt_mvsink",
    "started",
    "settings",
)  # of one that answers


@click.group()
def session() -> None:
    """A warm session: a local Spark that stays, so that commands need not start one.

    While it runs, dbt and mvsink use it by themselves for targets of method session that have the
    same settings, and several of them work at the same time.
    """


@session.command("start")
@takes_dbt
@click.option(
    "--idle",
    type=click.FloatRange(min=0),
    default=IDLE,
    show_default=True,
    metavar="SECONDS",
    help="How long it stays without a client.",
)
@takes_output
def start_session(target: Target, dbt: Dbt, idle: float, output: Printer) -> None:
    """Start the warm session of the target, unless it runs.

    Exit code: 0; 1 if it did not start; 2 for wrong usage, such as a target of another method.

    \b
    Examples:
      mvsink session start
      mvsink session start --target dev --idle 600
    """
    credentials = credentials_of(dbt)
    if credentials.method != SESSION:
        raise WrongUsage(
            f"target {target.name!r} has method {credentials.method}: only method {SESSION} has a warm session"
        )
    place = WarmPlace.of(credentials)
    before = place.running(say)
    credentials.progress = False  # here, in this command's own way
    try:
        with progress("starting Spark"):
            server = before or start(credentials, idle)
    except DbtRuntimeError as error:
        raise failed(error) from error
    output.json({**_values(place, place.name), "started_now": before is None})
    output.text(
        f"{server.words} {'runs already' if before else 'is there'}: Spark {server.pyspark}, sc://localhost:{server.port} "
        f"(its token is in {place.path('json')})",
        "dbt and mvsink use it from now on; `mvsink session stop` ends it",
    )


@session.command("stop")
@takes_dbt
@click.option("--all", "every", is_flag=True, help="Also those of other settings and versions.")
@click.option("--force", is_flag=True, help="Even while commands use it: they fail.")
@takes_output
def stop_session(target: Target, dbt: Dbt, every: bool, force: bool, output: Printer) -> None:
    """End the warm session of the target.

    Exit code: 0, also if there is none; 1 if commands use it.

    \b
    Examples:
      mvsink session stop
      mvsink session stop --all
    """
    credentials = credentials_of(dbt)
    mine = WarmPlace.of(credentials)
    running = [
        (place, server)
        for place in (places(Path(credentials.home)) if every else [mine])
        if (server := place.running(say)) is not None
    ]
    in_use = [(place, server, _in_use(place)) for place, server in running if _in_use(place)]
    if in_use and not force:
        raise SessionInUse(
            "\n".join(f"{server.words} is used by {_processes(used)}" for _, server, used in in_use)
            + "\nWait for them, or add --force"
        )
    ended = []
    for place, server in running:
        with progress(f"ending {server.words}"):
            in_time = stop(place, server)
        ended.append(place.name)
        output.text(f"{server.words} has ended" if in_time else f"{server.words} did not end, and was killed")
    output.json({"ended": ended})
    if not ended:
        alive = [place for place in places(Path(credentials.home)) if place.is_alive()]
        others = len([place for place in alive if place != mine])
        more = f"; {others} of other settings or versions (`--all` ends them, too)" if others else ""
        if mine in alive:
            more += "; one is starting: stop it once it answers"
        output.text(f"there is no warm session of target {target.name}{more}")


@session.command("status")
@takes_dbt
@takes_output
def session_status(target: Target, dbt: Dbt, output: Printer) -> None:
    """All warm sessions of the project, also such that this target does not use.

    Exit code: 0.

    \b
    Examples:
      mvsink session status
      mvsink session status --output json
    """
    credentials = credentials_of(dbt)
    mine = WarmPlace.of(credentials).name if credentials.method == SESSION else ""
    every = [_values(place, mine) for place in places(Path(credentials.home))]
    sessions = [each for each in every if each["state"] != "ended"]
    output.json({"sessions": sessions})
    if sessions:
        output.table(_columns(wall_clock.now_ms()), sessions)
    else:
        output.text(f"there is no warm session of project {target.project}: `mvsink session start`")


def say(text: str) -> None:
    """Show it on stderr, whatever the form of the output."""
    click.echo(text, err=True)


def _in_use(place: WarmPlace) -> list[int]:
    """The processes that use it."""
    return [client.process for client in clients(place) if not client.gone]


def _processes(numbers: Sequence[int]) -> str:
    return ("process " if len(numbers) == 1 else "processes ") + ", ".join(map(str, numbers))


def _values(place: WarmPlace, mine: str) -> dict[str, Any]:
    """A session as JSON, without its token. ``started`` is in ms."""
    server = place.running(say)
    state = "ready" if server else "starting" if place.is_alive() else "ended"
    known = (
        dict.fromkeys(KNOWN)
        if server is None
        else {
            "process": server.process,
            "remote": f"sc://localhost:{server.port}",
            "token_file": str(place.path("json")),
            "pyspark": server.pyspark,
            "dbt_mvsink": server.package,
            "started": server.started,
            "settings": list(server.settings),
        }
    )
    used = {"used_by_this_target": place.name == mine, "clients": _in_use(place)}
    return {"name": place.name, "state": state, **used, **known}


def _columns(now: int) -> list[TableColumn[dict[str, Any]]]:
    def text(key: str) -> TableColumn[dict[str, Any]]:
        return TableColumn(key, lambda each: str(each[key] or ""))

    return [
        text("process"),
        text("state"),
        TableColumn("this target's", lambda each: "yes" if each["used_by_this_target"] else "no"),
        text("remote"),
        text("pyspark"),
        TableColumn("dbt-mvsink", lambda each: each["dbt_mvsink"] or "", optional=True),
        TableColumn(
            "started", lambda each: ago_text(max(0, now - each["started"])) if each["started"] else ""
        ),
        TableColumn("clients", lambda each: ", ".join(map(str, each["clients"])), optional=True),
        TableColumn("settings", lambda each: ", ".join(each["settings"] or ()), optional=True, shrinks=True),
    ]
