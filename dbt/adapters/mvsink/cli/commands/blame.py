"""`mvsink blame MODEL --where CONDITION`: which run wrote these rows, and what they were before.

A small shard is read in this process if the condition is simple enough. Otherwise a query through
dbt's connection answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from dbt.adapters.mvsink.cli.comparison import named_columns
from dbt.adapters.mvsink.cli.dbt_runner import Dbt, through_dbt
from dbt.adapters.mvsink.cli.discovery import ShardHistory, open_past, point_values, progress, refused
from dbt.adapters.mvsink.cli.errors import WrongUsage
from dbt.adapters.mvsink.cli.render import Printer, author_text, count_option, takes_output
from dbt.adapters.mvsink.cli.row_table import shown_value
from dbt.adapters.mvsink.cli.target import Target, takes_dbt
from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.history.points import LATEST
from dbt.adapters.mvsink.history.row_authors import (
    Authors,
    BlameAnswer,
    Question,
    Removal,
    Standing,
    WrittenRow,
    is_small,
    key_columns,
    parse_terms,
    rows_from_engine,
    rows_from_files,
)
from dbt.adapters.mvsink.history.row_versions import RowVersions
from dbt.adapters.mvsink.shard.updates import physical_schema
from dbt.adapters.mvsink.user_sql.conditions import problem_of

LIMIT = 20


@click.command()
@takes_dbt
@click.option("--where", required=True, metavar="SQL", help="Which rows: a condition over the columns.")
@click.option("--at", default=LATEST, show_default=True, metavar="POINT", help="The point in time.")
@click.option(
    "--key", "keys", multiple=True, help="A column of the key: shows the rows before. Repeat it for several."
)
@count_option("--limit", LIMIT, "How many rows, and how many earlier ones of each key.")
@takes_output
@click.argument("model")
def blame(
    target: Target,
    dbt: Dbt,
    model: str,
    where: str,
    at: str,
    keys: tuple[str, ...],
    limit: int,
    output: Printer,
) -> None:
    """Which run wrote the rows of MODEL that satisfy a condition, and which removed others.

    Conditions like "id = 7 and name = 'x'" on shards of up to a million updates are answered from
    the files; any other one by dbt's connection. A row that existed when the readable history
    begins (`retain_history`) was written then or before.

    Exit code: 0, also if no row satisfies the condition; 1 if the shard could not be read or the
    condition is not valid; 2 for wrong usage, such as a point that cannot be read.

    \b
    Examples:
      mvsink blame orders --where "order_id = 7"
      mvsink blame orders --where "day = '2026-11-20'" --at -1
    """
    values = _blamed(open_past(target, model), dbt, where, at, keys, limit)
    output.json(values)
    output.text(*_lines(values))


def _blamed(
    past: ShardHistory, dbt: Dbt, where: str, at: str, keys: Sequence[str], limit: int
) -> dict[str, Any]:
    """The answer as JSON."""
    point, layout = past.point(at), past.layout()
    if point.earlier is not None:
        raise WrongUsage(
            f"--at: {at!r} is of generation {point.earlier.generation}, before the present one "
            f"({past.state.generation}), whose rows blame knows; `mvsink diff` and `mv_as_of` read it"
        )
    with refused():
        problem = problem_of(where, layout.names)  # before Spark is started
        if problem:
            raise WrongUsage(f"--where: {where!r} is not a condition on the model's rows: {problem}")
        everything = RowVersions.of(layout, past.state)
        key = key_columns(layout, named_columns(keys, layout.names))
        versions = RowVersions(layout, everything.since, point.time, everything.began)
        question = Question(versions, where, key, limit)
        with progress("looking for the rows"):
            answer, from_files = _answer(past, dbt, question)
    return {
        **past.shard.place,
        **point_values(point),
        "since": everything.since,
        "where": where,
        "key": list(key) or None,
        "limit": limit,
        "from_files": from_files,
        **_answer_values(answer, key, Authors(past.state, past.commits, began=everything.began)),
    }


def _answer(past: ShardHistory, dbt: Dbt, question: Question) -> tuple[BlameAnswer, bool]:
    """The answer, and whether it is from the files alone."""
    columns = question.versions.layout.columns
    terms = parse_terms(question.where, columns) if is_small(past.state, columns) else None
    if terms is None:
        return rows_from_engine(through_dbt(dbt, dbt.parsed()), question), False
    schema = physical_schema(past.state.schema)
    answer = rows_from_files(past.state, lambda file: past.reader.columns_of(file, schema), question, terms)
    return answer, True


def _answer_values(answer: BlameAnswer, key: tuple[str, ...], authors: Authors) -> dict[str, Any]:
    """The answer's rows as JSON. ``gone`` lists the rows that were removed, but not those with the
    key of a row that still exists: they are among that row's ``before``.
    """
    rows = [_standing(each, answer, key, authors) for each in answer.standing]
    keys = [_key_of(each, key) for each in answer.standing] if key else []
    gone = [removal for removal in answer.gone if not key or _key_of(removal, key) not in keys]
    return {"rows": rows, "gone": [_removal(each, authors) for each in gone]}


def _key_of(each: Standing | Removal, key: tuple[str, ...]) -> list[object]:
    return [each.row[name] for name in key]


def _standing(each: Standing, answer: BlameAnswer, key: tuple[str, ...], authors: Authors) -> dict[str, Any]:
    earlier = [
        removal
        for removal in answer.before
        if _key_of(removal, key) == _key_of(each, key) and removal.removed <= each.written
    ]
    return {
        "row": dict(each.row),
        "copies": each.copies,
        "written": _written(authors.of(each.written)),
        "before": [_removal(removal, authors) for removal in earlier] if key else None,
    }


def _removal(removal: Removal, authors: Authors) -> dict[str, Any]:
    return {
        "row": dict(removal.row),
        "copies": removal.copies,
        "written": _written(authors.of(removal.written)),
        "removed": _written(authors.of(removal.removed)),
    }


def _written(written: WrittenRow) -> dict[str, Any]:
    run, commit = written.run, written.commit
    return {
        "time": written.time,
        "exact": written.exact,
        "invocation_id": run.invocation_id or None if run else None,
        "computed_through": commit.note.computed_through if commit else None,
        "host": commit.host or None if commit else None,
        "purpose": commit.note.purpose or None if commit else None,
        "version": commit.version if commit else None,
        "definition": commit.note.definition or None if commit else None,
        "author": dict(commit.author) or None if commit else None,
    }


def _lines(values: Mapping[str, Any]) -> Iterator[str]:
    count, first = len(values["rows"]), "the first " if len(values["rows"]) == values["limit"] else ""
    yield f"{values['model']} as of {iso(values['time'])}: " + (
        "no row satisfies the condition" if not count else f"{first}{count:,} row{'' if count == 1 else 's'}"
    )
    for each in values["rows"]:
        yield f"  {_row(each)}"
        yield f"    written {_who(each['written'])}"
        for earlier in each["before"] or ():
            yield f"    before: {_row(earlier)}"
            yield f"      written {_who(earlier['written'])}"
            yield f"      removed {_who(earlier['removed'])}"
    for each in values["gone"]:
        yield f"  no longer there: {_row(each)}"
        yield f"    written {_who(each['written'])}"
        yield f"    removed {_who(each['removed'])}"


def _row(each: Mapping[str, Any]) -> str:
    row = ", ".join(f"{name}={shown_value(value)}" for name, value in each["row"].items())
    return row + (f"  ({each['copies']} copies)" if each["copies"] > 1 else "")


def _who(written: Mapping[str, Any]) -> str:
    """``at 2026-11-20T15:00:00Z by run 4f3c... on myhost, definition 1f...``"""
    if not written["exact"]:
        return f"at {iso(written['time'])}, where the readable history begins, or before"
    if written["version"] is None:
        return f"at {iso(written['time'])}; its commit is no longer in the log"
    run = f"run {written['invocation_id']}" if written["invocation_id"] else f"commit {written['version']}"
    who = author_text(written["author"])
    by = f" of {who}" if who else f" on {written['host']}" if written["host"] else ""
    through = written["computed_through"]
    computed = f", computed at {iso(through)}" if through not in (None, written["time"]) else ""
    definition = f", definition {written['definition']}" if written["definition"] else ""
    return f"at {iso(written['time'])} by {run}{by}{computed}{definition}"
