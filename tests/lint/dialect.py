"""Finds words of a private dialect in code and prose, and says what to write instead.

`make lint` runs it, and fails if it finds one. A line of output is ``file:line: word ->
replacement``. Only words without a legitimate use are listed; what remains legitimate (dbt's own
names, keys that users read) is in ``ALLOWED``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SEARCHED = ("dbt", "tests", "docs", "example_project", "benchmarks", "README.md", "CONTRIBUTING.md")
SUFFIXES = {".py", ".sql", ".md", ".yml", ".yaml", ".toml", ".sh", ".css"}

WORDS = {  # a word, also as a part of a snake_case name, and what to write instead
    "told": "shown, reported, known; a name: `output`, `response`, `messages`",
    "tells": "shows, says, reports",
    "telling": "showing, saying",
    "foretold|foretells?": "preview",
    "overtaken|overtakes|overtook": "superseded",
    "anew": "again, from scratch",
    "intruded?": "written_by_others, written by another writer",
    "blind": "untrackable",
    "nobody": "no reader, no writer, no one",
    "somebody": "another writer, a user",
    "everybody|everybody_s": "all_owners, all, every reader",
    "whoever|whosoever|whomever": "a caller that, a reader who, the one that",
    "mended|mends?": "fixed",
    "stepped_aside|stepped aside": "backup_relation",
    "of whom|by whose": "of which; name the writer",
    "so it is with|be it": "likewise; whether",
}
PHRASES = {  # in prose
    r"looked (?!up\b|for\b)": "read, checked, compared",
    r"looks again": "reloads and retries",
    r"stands (?!for\b|in for\b|alone\b)": "is",
    r"what stood": "the rows that existed, the rows before",
    r"to be had": "available",
    r"ways? out": "a remedy",
    r"would-be": "new, resulting",
    r"something else than": "something other than",
    r"(?:runs?|models|ran|computed) aside": "in temporary schemas",
    r"cannot be followed": "cannot be analyzed, cannot be resolved",
    r"readable is \[": "the readable times are [",
    r"(?:what|which|that|this|it|query|reference|error|writing|local) is no "
    r"(?!longer\b|more\b|such\b|new\w*\b|older\b|later\b)\w+": "is not a ...",
}
NAMES = {  # names of variables, arguments, functions, classes and fields
    "told": "`output`, `response`, `messages`",
    "found": "a noun: `columns`, `references`, `current`, `result`",
    "given": "a noun: `columns`, `options`, `value`",
    "held": "`stored`, `current`, `holds`",
    "near": "`narrowed`",
    "there": "`is_active`, `existing`",
    "seen": "`observed`, `known`",
    "said": "`output`, `message`",
    "looks": "`probes`",
    "looked": "`probed`",
}
CONSTANTS = re.compile(r"(?<![A-Za-z])(MOST|LEAST)_(?=[A-Z])")
ALLOWED: dict[str, dict[str, str]] = {  # file: {word: why it stays}; "*" is every file
    "*": {'"overtaken"': "a key of adapter_response and of `mvsink plan --json`", "`overtaken`": "likewise"},
    "tests/lint/dialect.py": {"*": "the list itself"},
    **{
        path: {"overtaken": "the key of adapter_response and of `mvsink plan`, as a field"}
        for path in (
            "dbt/adapters/mvsink/materialization/response.py",
            "dbt/adapters/mvsink/cli/commands/plan.py",
            "dbt/adapters/mvsink/cli/model_plan.py",
            "tests/unit/references/test_consistency.py",
            "tests/unit/materialization/test_response.py",
        )
    },
}


class Hit(NamedTuple):
    path: str
    line: int
    word: str
    instead: str


def _pattern(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z])(?:{word})(?![A-Za-z])", re.IGNORECASE)


PROSE = [(_pattern(word), instead) for word, instead in WORDS.items()]
PROSE += [(re.compile(rf"\b{phrase}", re.IGNORECASE), instead) for phrase, instead in PHRASES.items()]
PROSE.append((CONSTANTS, "MAX_, MIN_"))


def words(path: str, text: str) -> Iterator[Hit]:
    """Dialect words in ``text``, which is anything."""
    for number, line in enumerate(text.splitlines(), start=1):
        for quoted in ALLOWED["*"]:
            line = line.replace(quoted, "")
        for pattern, instead in PROSE:
            for match in pattern.finditer(line):
                yield Hit(path, number, match.group().strip(), instead)


def names(path: str, code: str) -> Iterator[Hit]:
    """Definitions in Python ``code`` whose name is a participle where a noun belongs."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                pass
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case _:
                continue
        if (word := name.strip("_").lower()) in NAMES and word not in WORDS:
            yield Hit(path, node.lineno, f"the name {name}", NAMES[word])


def files() -> Iterator[Path]:
    for start in SEARCHED:
        for path in [ROOT / start, *sorted((ROOT / start).rglob("*"))]:
            if path.is_file() and path.suffix in SUFFIXES and not {"target", "data"} & set(path.parts):
                yield path


def hits() -> Iterator[Hit]:
    for path in files():
        name, text = str(path.relative_to(ROOT)), path.read_text()
        allowed = ALLOWED.get(name, {})
        every = [*words(name, text), *(names(name, text) if path.suffix == ".py" else ())]
        yield from (hit for hit in every if hit.word not in allowed and "*" not in allowed)


def main() -> int:
    every = list(hits())
    for hit in every:
        print(f"{hit.path}:{hit.line}: {hit.word} -> {hit.instead}")
    return 1 if every else 0


if __name__ == "__main__":
    raise SystemExit(main())
