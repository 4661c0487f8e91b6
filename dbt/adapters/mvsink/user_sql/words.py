"""Spark SQL as words with positions: a text can be read and changed without rendering it again.

Text in quotes and comments is not syntax: such a word has an empty `Word.upper`.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError

from dbt.adapters.mvsink.user_sql.comments import UnreadableText as UnreadableText
from dbt.adapters.mvsink.user_sql.comments import blanked


def keywords(listed: str) -> frozenset[str]:
    """The blank-separated keywords of ``listed``."""
    return frozenset(listed.split())


LONG = 20_000  # characters of a text that is not remembered
ENDS_FROM = keywords(
    "WHERE GROUP HAVING ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET WINDOW UNION EXCEPT INTERSECT MINUS SETMINUS QUALIFY SELECT SET "
    "VALUES |> ;"
)
_NO_ALIAS = ENDS_FROM | keywords(
    "ON USING JOIN INNER CROSS LEFT RIGHT FULL OUTER NATURAL SEMI ANTI LATERAL PIVOT UNPIVOT TABLESAMPLE AS FROM TABLE BY PARTITION "
    "WHILE WHEN WITH AND MAP REDUCE INSERT REPLACE IF THEN"
)


class _Tokenizer(Spark.Tokenizer):
    """Spark's tokenizer, except that SHOW and other commands are words; there, everything after one
    is a single token.
    """

    COMMANDS: ClassVar = set()


@dataclass(frozen=True)
class Word:
    """A token: a word, a quoted name, a literal or a sign. ``end`` is the position behind it.

    `upper` is what it is as syntax: empty for everything quoted.
    """

    text: str
    start: int
    end: int
    literal: bool = False
    quoted_name: bool = False
    upper: str = ""

    @property
    def is_name(self) -> bool:
        """Whether it may be a part of a name."""
        return self.quoted_name or (not self.literal and (self.text[:1].isalnum() or self.text[:1] == "_"))


def words(sql: str) -> tuple[Word, ...]:
    """The tokens of ``sql``; keywords of several words are separate. Raises `UnreadableText`."""
    return _read(sql) if len(sql) > LONG else _remembered(sql)


def _read(sql: str) -> tuple[Word, ...]:
    try:
        tokens = _Tokenizer(dialect=Spark()).tokenize(blanked(sql))
    except TokenError:
        raise UnreadableText from None
    stream: list[Word] = []
    for token in tokens:
        start, end = token.start, token.end + 1
        if stream and start < stream[-1].end:  # a number and its type suffix
            continue
        shown = sql[start:end]
        if shown[:1] == "$" and shown[-1:] == "$":
            stream.append(Word(shown.strip(string.ascii_letters).strip("$"), start, end, literal=True))
        elif shown[:1] == "`":
            stream.append(Word(token.text, start, end, quoted_name=True))
        elif shown[:1] in "'\"" or "STRING" in token.token_type.name or shown[:2] == "/*":
            stream.append(Word(token.text, start, end, literal=True))
        else:
            stream.extend(_separate(shown, start))
    return tuple(stream)


def parsed(sql: str) -> exp.Expr:
    """``sql``, one statement, as sqlglot reads it, at the same positions. Raises `SqlglotError`."""
    try:
        return sqlglot.parse_one(blanked(sql), read="spark")
    except UnreadableText as error:
        raise TokenError(str(error)) from error


_remembered = lru_cache(maxsize=64)(_read)  # one run reads the same query and names many times


def _separate(shown: str, start: int) -> Iterator[Word]:
    """`group  by` as two words."""
    position = 0
    for part in shown.split():
        position = shown.index(part, position)
        yield Word(part, start + position, start + position + len(part), upper=part.upper())
        position += len(part)


def identity(sql: str) -> tuple[str, ...]:
    """A form that is equal only for texts with the same meaning: in quoted words, case and the
    quotes count.
    """
    return tuple(word.upper or sql[word.start : word.end] for word in words(sql))


def parts(name: str) -> tuple[str, ...]:
    """The parts of a relation's name, to compare: ``db.`My Model` `` is ``("db", "my model")``."""
    return tuple(word.text.lower() for word in words(name) if word.upper != ".")


def names(described: str, name: str) -> bool:
    """Whether ``name`` is the relation that the catalog describes by its own whole name, unquoted,
    and not a part of it:

    >>> names("iceberg.raw.events", "raw.`Events`")
    True
    >>> names("iceberg.raw.events", "iceberg.raw.events.branch_dev")
    False
    """
    return f".{described.lower()}".endswith("." + ".".join(parts(name)))


def last_part(name: str) -> str:
    """The relation's own name, as written."""
    return words(name)[-1].text


def closing(stream: Sequence[Word], opening: int) -> int:
    """The index of the parenthesis that closes the one at ``opening``, or the stream's length."""
    depth = 0
    for index in range(opening, len(stream)):
        depth += {"(": 1, ")": -1}.get(stream[index].upper, 0)
        if depth == 0:
            return index
    return len(stream)


def alias_after(stream: Sequence[Word], index: int) -> tuple[str | None, int]:
    """The alias at ``index``, if there is one, and the index behind it."""
    explicit = index < len(stream) and stream[index].upper == "AS"
    index += explicit
    if index >= len(stream) or not stream[index].is_name:
        return None, index - explicit
    if stream[index].upper in _NO_ALIAS and not explicit and not is_alias_window(stream, index):
        return None, index
    return stream[index].text, index + 1


def is_alias_window(stream: Sequence[Word], index: int) -> bool:
    """Whether the word there is WINDOW and does not begin a clause: ``WINDOW name AS``."""
    named = [word.upper for word in stream[index : index + 3]]
    return named[:1] == ["WINDOW"] and named[2:] != ["AS"]
