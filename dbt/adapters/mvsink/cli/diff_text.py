"""A difference in words, from its JSON: for a terminal, and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dbt.adapters.mvsink.durations import iso

MAX_VALUE = 60  # characters of a value in a sample
Values = Mapping[str, Any]


def text_lines(values: Values) -> list[str]:
    """For a terminal."""
    lines = [f"{values['model']}{_paired_by(values)}"]
    lines += [f"  {side.upper()}  {_side(values, side)}" for side in "ab"]
    lines += ["", *(f"  {line}" for line in _findings(values))]
    if values["sample"]:
        lines += ["", *(f"  {line}" for line in sample_of(values))]
    return lines


def markdown_lines(values: Values) -> list[str]:
    """Markdown. The sample is a block of code, in which nothing is markup."""
    lines = [f"### {_escaped(values['model'])}", ""]
    lines += [f"- {side.upper()}: {_escaped(_side(values, side))}" for side in "ab"]
    if values["key"]:
        lines.append(f"- rows are{_escaped(_paired_by(values).removeprefix(','))}")
    lines += ["", "| | rows |", "|---|---:|"]
    counts = (("only in A", "only_in_a"), ("only in B", "only_in_b"), ("changed", "changed"))
    lines += [f"| {title} | {values[key]:,} |" for title, key in counts if key != "changed" or values["key"]]
    if values["changed_values"]:
        lines += ["", "| column | values changed |", "|---|---:|"]
        lines += [f"| {_escaped(name)} | {count:,} |" for name, count in values["changed_values"].items()]
    notes = [_escaped(note) for note in _notes(values)]
    lines += ["", *(f"- {note}" for note in notes)] if notes else []
    if values["sample"]:
        sample = list(sample_of(values))
        fence = "```"
        while any(fence in line for line in sample):
            fence += "`"
        lines += ["", f"{fence}diff", *sample, fence]
    return lines


def _paired_by(values: Values) -> str:
    return f", paired by {', '.join(values['key'])} ({values['key_source']})" if values["key"] else ""


def _side(values: Values, side: str) -> str:
    """``prod latest: 4 rows as of 2026-11-20T15:00:00Z, run 4f3c... of 2026-11-20T15:00:00Z``"""
    each = values[side]
    target = f"{each['target']} " if values["a"]["target"] != values["b"]["target"] else ""
    run = each["invocation_id"]
    by = f", left by run {run} of {iso(each['computed_through'])}" if run else ""
    return f"{target}{each['point']}: {_rows(each['rows'])} as of {iso(each['time'])}{by}"


def _rows(count: int) -> str:
    return f"{count:,} row" + ("" if count == 1 else "s")


def _findings(values: Values) -> Iterator[str]:
    if not values["differs"]:
        yield "no differences"
    for key, side in (("only_in_a", "only in A"), ("only_in_b", "only in B"), ("changed", "changed")):
        if values[key]:
            yield f"{_rows(values[key])} {side}" + (
                f": {_by_column(values)}" if key == "changed" and values["changed_values"] else ""
            )
    yield from _notes(values)


def _by_column(values: Values) -> str:
    return ", ".join(f"{name} in {count:,}" for name, count in values["changed_values"].items())


def _notes(values: Values) -> Iterator[str]:
    repeated, errors, columns = values["repeated_keys"], values["errors"], values["columns"]
    if repeated:
        subject = "1 key occurs" if repeated == 1 else f"{repeated:,} keys occur"
        yield f"{subject} more than once on a side: the rows are not paired"
    if errors:
        yield f"{errors:,} recorded error{'' if errors == 1 else 's'} on one side only"
    for side in "ab":
        if columns[f"only_in_{side}"]:
            yield f"columns only in {side.upper()}, not compared: {', '.join(columns[f'only_in_{side}'])}"
    for name, (a, b) in columns["retyped"].items():
        yield f"not compared: {name}, which is {a} in A and {b} in B"


def sample_of(values: Values) -> Iterator[str]:
    """A line for each row: `-` only in A, `+` only in B, `!` changed."""
    for change in values["sample"]:
        a, b = change["a"], change["b"]
        if a is not None and b is not None:
            yield "! " + ", ".join(_cell(values, name, a[name], b[name]) for name in b)
        else:
            copies = f"  ({change['copies']} copies)" if change["copies"] > 1 else ""
            row = ", ".join(f"{name}={shown(value)}" for name, value in (a or b).items())
            yield f"{'-' if b is None else '+'} {row}{copies}"
    larger = [key for key in ("only_in_a", "only_in_b", "changed") if values[key] > _shown_of(values, key)]
    if larger:
        yield "... --sample shows more"


def _shown_of(values: Values, key: str) -> int:
    kinds = {"changed": (True, True), "only_in_a": (True, False), "only_in_b": (False, True)}
    return sum(
        change["copies"]
        for change in values["sample"]
        if (change["a"] is not None, change["b"] is not None) == kinds[key]
    )


def _cell(values: Values, name: str, a: object, b: object) -> str:
    changed = name not in (values["key"] or ()) and a != b
    return f"{name}={shown(a)} -> {shown(b)}" if changed else f"{name}={shown(b)}"


def shown(value: object) -> str:
    """A value on one line; NULL is distinct from the text "NULL"."""
    if value is None:
        return "NULL"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"


def _escaped(text: str) -> str:
    """Plain text in Markdown."""
    return "".join("\\" + character if character in "\\`*_|<>[]#" else character for character in text)
