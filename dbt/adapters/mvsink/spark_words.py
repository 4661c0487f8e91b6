"""What Spark says about a statement, and where that is in the files of the model.

Texts come from PySpark's session, from Spark Connect and from Thrift servers. They have a sentence
or two, then a place in the statement that was sent, then plans, a copy of the statement, and Java's
stack. Only the sentences are kept, and the line of the place. What was sent is a text of ours
around the user's, so the line is looked up in the compiled file; if it is not there, no place is
shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

ANSI = "spark.sql.ansi.enabled"
TRIES = {  # by what an error condition is about: what gives NULL in its place
    "CAST": "`try_cast`",
    "DIVIDE": "`try_divide`",
    "REMAINDER": "`try_mod`",
    "OVERFLOW": "`try_add`, `try_subtract`, `try_multiply` or a wider type",
    "NUMERIC_VALUE_OUT_OF_RANGE": "`try_cast`, `try_multiply` or a wider type",
    "ARRAY_INDEX": "`get` or `try_element_at`",
    "MAP_KEY": "`try_element_at`",
    "PARSE_TIMESTAMP": "`try_to_timestamp`",
    "DATETIME": "`try_make_timestamp`",
    "INVALID_URL": "`try_parse_url`",
}
# an error condition that Spark has in ANSI mode only
_ANSI_ONLY = re.compile(
    r"\[((?:CAST_INVALID_INPUT|CAST_OVERFLOW|DIVIDE_BY_ZERO|REMAINDER_BY_ZERO|ARITHMETIC_OVERFLOW|INVALID_ARRAY_INDEX"
    r"|BINARY_ARITHMETIC_OVERFLOW|INTERVAL_ARITHMETIC_OVERFLOW|INTERVAL_DIVIDED_BY_ZERO|NUMERIC_VALUE_OUT_OF_RANGE"
    r"|MAP_KEY_DOES_NOT_EXIST|CANNOT_PARSE_TIMESTAMP|DATETIME_FIELD_OUT_OF_BOUNDS|INVALID_URL)\w*(?:\.\w+)*)\]"
)
UNREADABLE = re.compile(
    r"\[(?:FAILED_READ_FILE|CANNOT_READ_|FAILED_TO_CREATE_PLAN_FOR_DIRECT_QUERY|PATH_NOT_FOUND|UNABLE_TO_INFER_SCHEMA"
    r"|FILE_NOT_EXIST|INCONSISTENT_BEHAVIOR_CROSS_VERSION\.READ|MALFORMED_RECORD_IN_PARSING|MALFORMED_CSV_RECORD"
    r"|INVALID_JSON_RECORD)|FileNotFoundException|is not a Parquet file"
)
_STATE = re.compile(r"SQLSTATE: ?([0-9A-Z]{5})")
_PLACE = re.compile(r"\s*[;(]?\s*\(?\bline (\d+),? pos (\d+)\)?;?")
_FRAGMENT = re.compile(
    r"==\s*SQL(?: of (?P<kind>\w+) (?P<name>\S+?))? ?\(line \d+, position \d+\)\s*==\n(?P<line>[^\n]*)(?:\n(?P<caret>[ \t]*\^+))?"
)
_END = re.compile(  # what follows the sentences
    r"\n\s*== ?(?:SQL|DataFrame)|\n\s*JVM stacktrace:|\n\s*at [\w.$]+\(|\n\s*Caused by: |\n\s*'?[A-Z]\w+ ?[\[(]|\n\s*[+:]- "
)
_OURS = re.compile(r"`?\b_mv_\w+`?\.(?=`?\w)")
_SUGGESTED = re.compile(r", `_mv_\w+`|`_mv_\w+`, ")
_OWN_COLUMN = re.compile(r"cast\(`((?:[^`]|``)+)` as ")
_PATH = re.compile(r"(?:[a-z][a-z0-9+.-]*:/+|/)[^\s,;'\"`)\]]+")


@dataclass(frozen=True)
class SparkWords:
    """An error of Spark. ``line`` is the line of the statement at which it points, at the character
    ``at``, empty if it names none; ``nth`` says how often the line is in the statement before.
    ``output`` is the column of the model that was computed, if it only points there.
    """

    text: str
    sqlstate: str = ""
    line: str = ""
    at: int = 0
    nth: int = 0
    output: str = ""

    @property
    def remedy(self) -> str:
        """How to go on where ANSI mode is the cause; else empty."""
        condition = _ANSI_ONLY.search(self.text)
        if condition is None:
            return ""
        tries = next((function for part, function in TRIES.items() if part in condition[1]), "a `case`")
        return (
            f"ANSI mode ({ANSI}, on by default in Spark 4) refuses such a value. "
            f"Either use {tries} in the query, or "
            f'turn the mode off in the profile, for all models: server_side_parameters: {{{ANSI}: "false"}}'
        )


def read(text: str, statement: str = "") -> SparkWords:
    """The error in Spark's ``text`` about ``statement``, as it was sent.

    >>> words = read("[NO] `b`. SQLSTATE: 42703; line 2 pos 7;\\n'Project", "explain\\nselect b")
    >>> words.text, words.line, words.at
    ('[NO] `b`. SQLSTATE: 42703', 'select b', 7)
    """
    state, fragment = _STATE.search(text), _FRAGMENT.search(text)
    end = _END.search(text)
    place = _PLACE.match(text, state.end()) if state else None
    stop = state.end() if state else end.start() if end else len(text)
    message = _SUGGESTED.sub("", _OURS.sub("", text[:stop])).strip()
    sqlstate = state[1] if state else ""
    if fragment is not None:
        return _at_fragment(message, sqlstate, fragment, statement)
    lines = statement.split("\n")
    if place is None or not int(place[1]) <= len(lines):
        return SparkWords(message, sqlstate)
    number, at = int(place[1]) - 1, int(place[2])
    return _pointing(message, sqlstate, lines, number, at)


def _pointing(message: str, sqlstate: str, lines: Sequence[str], number: int, at: int) -> SparkWords:
    nth = sum(line == lines[number] for line in lines[:number])
    return SparkWords(message, sqlstate, lines[number], at, nth)


def _at_fragment(message: str, sqlstate: str, fragment: re.Match[str], statement: str) -> SparkWords:
    """At the line that Spark quotes. It cuts it where it is long, and shifts it."""
    if fragment["name"]:
        return SparkWords(f"{message}, in the {fragment['kind'].lower()} {fragment['name']}", sqlstate)
    quoted, at = fragment["line"], len(fragment["caret"] or "") - len((fragment["caret"] or "").lstrip())
    if "_mv_" in quoted:
        own = _OWN_COLUMN.match(quoted, at)
        return SparkWords(message, sqlstate, output=own[1].replace("``", "`") if own else "")
    whole = quoted.removesuffix("...").removeprefix("...").strip()
    shift = quoted.find(whole)
    lines = statement.split("\n")
    number = next((index for index, line in enumerate(lines) if whole and whole in line), None)
    if number is None:
        return SparkWords(message, sqlstate, quoted, at)
    return _pointing(message, sqlstate, lines, number, lines[number].index(whole) + at - shift)


def place_in(text: str, words: SparkWords) -> tuple[int, int] | None:
    """The line of ``text``, from 0, and the character in it at which the error points; None if that
    is not certain.

    >>> place_in("select a,\\nbcd from t", SparkWords("no", line="bcd from (select 1) t"))
    (1, 0)
    """
    lines = text.split("\n")
    if words.output:
        return _column(lines, words.output)
    if not words.line.strip():
        return None
    same = [index for index, line in enumerate(lines) if line.rstrip() == words.line.rstrip()]
    if same:
        return (same[words.nth] if words.nth < len(same) else same[0], words.at)
    alike = [(index, at) for index, line in enumerate(lines) if (at := _alike(line, words)) is not None]
    return alike[0] if len(alike) == 1 else None


def _alike(line: str, words: SparkWords) -> int | None:
    """The place in a ``line`` of which a part after or before the place was replaced."""
    token = re.match(r"`[^`]*`|'[^']*'|\w+|\S", words.line[words.at :])
    if token is None:
        return None
    before, after = words.line[: words.at], words.line[words.at :]
    if before.strip() and line.startswith(before + token[0]):
        return len(before)
    if line.endswith(after) and len(after.split()) > 1:
        return len(line) - len(after)
    if not before.strip() and line.strip() and line.lstrip().startswith(token[0]) and len(token[0]) > 2:
        return len(line) - len(line.lstrip())
    return None


def _column(lines: Sequence[str], output: str) -> tuple[int, int] | None:
    """The only line that gives a column this name."""
    name = re.compile(rf"(?i)\bas\s+`?{re.escape(output)}`?(?=\s*(?:,|$|\bfrom\b))")
    named = [index for index, line in enumerate(lines) if name.search(line)]
    if len(named) != 1:
        return None
    line = lines[named[0]]
    return named[0], len(line) - len(line.lstrip())


def shown(words: SparkWords, node: Any) -> Iterator[str]:
    """The lines about the place of an error in the files of ``node`` (dbt's), and how to go on."""
    if words.output:
        yield f"while the column `{words.output}` was computed"
    compiled = str(getattr(node, "compiled_code", None) or "")
    place = place_in(compiled, words) if compiled else None
    if place is not None:
        number, at = place
        line = compiled.split("\n")[number].rstrip()
        file = getattr(node, "compiled_path", None) or "the compiled SQL"
        where, own = f"{file}, line {number + 1}, column {at + 1}", own_line(node, compiled, number)
        yield f"{where} ({own}):" if own else f"{where}:"
        yield f"  {line}"
        yield "  " + "".join(c if c == "\t" else " " for c in line[:at]) + "^"
    elif words.line.strip() and "_mv_" not in words.line:
        yield from ("in the statement that was sent:", f"  {words.line}", f"  {' ' * words.at}^")
    if UNREADABLE.search(words.text) and (relations := read_by(words, node)):
        yield relations
    if words.remedy:
        yield words.remedy


def own_line(node: Any, compiled: str, number: int) -> str:
    """The file and line of the model's own text which has that line of the ``compiled`` one
    verbatim; empty if it has none, or not as often.
    """
    raw, lines = str(getattr(node, "raw_code", None) or "").split("\n"), compiled.split("\n")
    line = lines[number].strip()
    same = [index for index, each in enumerate(raw) if each.strip() == line]
    before = sum(each.strip() == line for each in lines[:number])
    if not line or len(same) != sum(each.strip() == line for each in lines):
        return ""
    return f"{getattr(node, 'original_file_path', 'the model')}, line {same[before] + 1}"


def read_by(words: SparkWords, node: Any) -> str:
    """Which relation a file that could not be read is of, by its path; else what the node reads."""
    sources = [".".join(each) for each in getattr(node, "sources", None) or ()]
    models = [str(getattr(each, "name", each)) for each in getattr(node, "refs", None) or ()]
    reads = [*dict.fromkeys([*sources, *models])]
    folders = {part.lower() for path in _PATH.findall(words.text) for part in path.split("/")}
    named = [each for each in reads if each.rsplit(".", 1)[-1].lower() in folders]
    if len(named) == 1:
        remedy = ": correct, restore or remove it" if named[0] in sources else ""
        return f"that is a file of {named[0]}{remedy}"
    reads += re.findall(r"\b\w+\.`[^`]+`", str(getattr(node, "compiled_code", None) or ""))  # of files
    return f"the query reads {', '.join(reads)}" if reads else ""
