"""Reading what a storage keeps. Anything may be there: a file that was cut off or edited, another
tool's text, numbers too large for an integer.

All JSON that the package reads from a storage is read here, and so are the properties of a table.
`Unreadable` says what is wrong. The caller either names the damage and a remedy, or goes on without
the text if it would only have saved work. docs/design/storage-safety.md lists which.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from dbt.adapters.mvsink.shard.errors import InvalidUsage, LogDamaged
from dbt.adapters.mvsink.shard.state import ShardState

T = TypeVar("T")
LARGEST = 2**63 - 1
SHOWN = 60  # characters
_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # of a character that JSON spells as a pair


class Unreadable(ValueError):
    """What is stored is not what was written there."""


def text_of(stored: bytes) -> str:
    """The text of a file. Bytes that are not UTF-8 become characters that no text has, so that
    `parsed` refuses only the line that has them.
    """
    return stored.decode("utf-8", "surrogateescape")


def parsed(text: str | None) -> Any:
    """The value of a JSON text.

    >>> parsed('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}

    Raises `Unreadable` if it is not JSON, is nested too deeply, or has a number out of range.
    """
    try:
        if text is not None and not text.isascii():
            text.encode()
        value = _DECODER.decode(text or "")
        if _HALF.search(text or ""):  # whole pairs are spelled like that, too
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError as error:
        raise Unreadable("it is not UTF-8") from error
    except RecursionError as error:
        raise Unreadable("it is nested too deeply") from error
    except ValueError as error:
        raise Unreadable(str(error)) from error


def an_object(value: Any) -> Mapping[str, Any]:
    """``value``, if it is a JSON object."""
    if not isinstance(value, dict):
        raise Unreadable(f"expected an object, not {_shown(value)}")
    return value


def an_array(value: Any) -> list[Any]:
    """``value``, if it is a JSON array."""
    if not isinstance(value, list):
        raise Unreadable(f"expected an array, not {_shown(value)}")
    return value


def a_text(value: Any) -> str:
    """``value``, if it is a text."""
    if not isinstance(value, str):
        raise Unreadable(f"expected a text, not {_shown(value)}")
    return value


def an_integer(value: Any, least: int = -LARGEST - 1) -> int:
    """``value``, if it is a 64-bit integer of at least ``least``.

    >>> an_integer(5, least=0)
    5
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
        raise Unreadable(f"expected an integer from {least}, not {_shown(value)}")
    return int(value)


def a_number(value: Any) -> float:
    """``value``, if it is a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unreadable(f"expected a number, not {_shown(value)}")
    number: float = value
    return number


def texts(value: Any) -> tuple[str, ...]:
    """``value``, if it is an array of texts."""
    return tuple(map(a_text, an_array(value)))


def a_truth(value: Any) -> bool:
    """``value``, if it is true or false."""
    if not isinstance(value, bool):
        raise Unreadable(f"expected true or false, not {_shown(value)}")
    return value


def member(value: Any, name: str) -> Any:
    """The value that the object has under that name."""
    if name not in an_object(value):
        raise Unreadable(f"it has no {name!r}")
    return value[name]


def optional(value: Any, kind: Callable[[Any], T]) -> T | None:
    """``value``, if it is of that kind or null."""
    return None if value is None else kind(value)


def number_in(text: str, least: int = 0) -> int:
    """The integer in a text, the form in which table configuration keeps it."""
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
        raise Unreadable(f"expected an integer, not {_shown(text)}")
    return an_integer(int(text), least)


def property_of(state: ShardState, name: str, default: T, read: Callable[[Any], T]) -> T:
    """The shard's property of that name, JSON that ``read`` converts; ``default`` if the shard has
    none. Raises `LogDamaged` with the remedy if it is not what this package writes.
    """
    text = state.properties.get(name)
    if text is None:
        return default
    try:
        return read(parsed(text))
    except (Unreadable, InvalidUsage) as error:
        raise LogDamaged(state.uri, wrong_setting(state.version, name, text, error)) from error


def wrong_setting(version: int, name: str, value: str, error: Exception) -> str:
    """What is wrong with a table property of ours, and what to do."""
    return (
        f"at version {version} the table property mvsink.{name} is {_shown(value)}: {error}. Another tool wrote it. Restore the table "
        "to a version before that with that tool, or move the shard's directory away and run with --full-refresh, which starts a new "
        "shard, without history"
    )


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # of an integer with more digits than Python prints
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits[:SHOWN]} is out of range")
    return number


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_refused)
