"""The kinds of config values: how a value is parsed, the description of allowed values, and a JSON
schema."""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar

from dbt.adapters.mvsink.durations import INTERVAL_UNITS, parse_interval
from dbt.adapters.mvsink.exceptions import InvalidOption
from dbt.adapters.mvsink.shard_sql.verification import VerifyPolicy

T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=enum.Enum)

INTERVAL_PATTERN = r"^\s*\d+\s*([mM][sS]|[a-zA-Z]{3,})\s*$"
TEXTS = {"type": "array", "items": {"type": "string"}}


class NotAllowed(ValueError):
    """A value is refused. The message, if there is one, says what is allowed more exactly than the
    kind does.
    """


@dataclass(frozen=True)
class ValueKind(Generic[T_co]):
    """One kind of value. ``read`` returns the parsed value or raises `NotAllowed`; ``allowed``
    describes the allowed values in messages and documentation, and ``schema`` is the JSON schema
    for them.
    """

    read: Callable[[Any], T_co]
    allowed: str
    schema: Mapping[str, Any]

    def parse(self, model: str, option: str, value: Any) -> T_co:
        """``value`` as read. Raises `InvalidOption`."""
        try:
            return self.read(value)
        except NotAllowed as error:
            raise InvalidOption(model, option, value, str(error) or self.allowed) from None


def text_choice(*allowed: str) -> ValueKind[str]:
    """One of some texts."""

    def read(value: Any) -> str:
        if value not in allowed:
            raise NotAllowed
        return str(value)

    return ValueKind(read, ", ".join(map(repr, allowed)), {"enum": list(allowed)})


def file_format(value: Any) -> str:
    """How a model is published: `delta`, `iceberg`, or `view` for the formats of dbt-spark that a
    shard does not use: a project may set them for models of all kinds.
    """
    if not isinstance(value, str) or value.lower() not in (*PUBLISHED, *UNUSED_FORMATS):
        raise NotAllowed
    return value.lower() if value.lower() in PUBLISHED else "view"


PUBLISHED = ("delta", "iceberg", "view")
UNUSED_FORMATS = (
    "parquet",
    "hudi",
    "orc",
    "csv",
    "json",
    "text",
    "jdbc",
    "hive",
    "libsvm",
    "avro",
)
FILE_FORMAT = ValueKind(file_format, ", ".join(map(repr, PUBLISHED)), {"enum": [*PUBLISHED, *UNUSED_FORMATS]})


def choice(values: type[E], synonyms: Mapping[str, E] | None = None) -> ValueKind[E]:
    """The value of one member of an enum, or a synonym that messages do not mention."""
    texts = {str(member.value): member for member in values}
    spelled = {**texts, **(synonyms or {})}

    def read(value: Any) -> E:
        if not isinstance(value, str) or value not in spelled:
            raise NotAllowed
        return spelled[value]

    return ValueKind(read, ", ".join(map(repr, texts)), {"enum": list(spelled)})


def _interval(value: Any) -> int:
    parsed = parse_interval(value)
    if parsed is None or parsed < 1000:
        raise NotAllowed
    return parsed


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise NotAllowed
    return value


def texts(value: Any) -> tuple[str, ...]:
    """One text, or a list of texts. Raises `NotAllowed`."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, Sequence) or not all(isinstance(each, str) for each in listed):
        raise NotAllowed
    return tuple(listed)


INTERVAL = ValueKind(
    _interval,
    f"an interval of at least '1 second' in {INTERVAL_UNITS}, like '1 day'",
    {"type": "string", "pattern": INTERVAL_PATTERN},
)
_RUNS = r"^\s*[1-9]\d{0,8}\s+runs?\s*$"


def _verify(value: Any) -> VerifyPolicy:
    if value == "auto":
        return VerifyPolicy(budget=True)
    if value == "never":
        return VerifyPolicy()
    if isinstance(value, str) and re.match(_RUNS, value):
        return VerifyPolicy(runs=int(value.split()[0]))
    return VerifyPolicy(_interval(value))


VERIFY = ValueKind(
    _verify,
    f"'auto', {INTERVAL.allowed}, a number of runs, like '20 runs', or 'never'",
    {"anyOf": [INTERVAL.schema, {"type": "string", "pattern": _RUNS}, {"enum": ["auto", "never"]}]},
)
BOOLEAN = ValueKind(_boolean, "true or false", {"type": "boolean"})


@dataclass(frozen=True)
class OwnFunctions:
    """The user's own functions by name, each with the version that the user gave it, or ""."""

    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.versions)

    def described(self) -> list[str]:
        """The functions that have a version, with it, in a form that depends neither on the order
        nor on the case of names.
        """
        return sorted(
            f"function {name.lower()} = {version}" for name, version in self.versions.items() if version
        )


def _functions(value: Any) -> OwnFunctions:
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) and _is_version(version) for name, version in value.items()):
            raise NotAllowed
        return OwnFunctions({name: str(version) for name, version in value.items()})
    return OwnFunctions(dict.fromkeys(texts(value), ""))


def _is_version(value: Any) -> bool:
    return isinstance(value, (int, str)) and not isinstance(value, bool) and str(value) != ""


FUNCTIONS = ValueKind(
    _functions,
    "a function's name, a list of functions' names, or a mapping of them to versions, like {clean: 2}",
    {
        "anyOf": [
            {"type": "string"},
            TEXTS,
            {"type": "object", "additionalProperties": {"type": ["integer", "string"], "minLength": 1}},
        ]
    },
)
COLUMNS = ValueKind(
    texts, "a column's name or a list of columns' names", {"anyOf": [{"type": "string"}, TEXTS]}
)


def nearest(key: str, known: Iterable[str]) -> str:
    """The known name that differs from ``key`` only in case, or by at most two letters; empty if
    there is none. Short keys that only resemble a name are left alone.

    >>> keys = ("RETAIN_HISTORY", "retain-histroy", "Adopt", "tags")
    >>> [nearest(key, ["retain_history", "adopt"]) for key in keys]
    ['retain_history', 'retain_history', 'adopt', '']
    """
    plain = key.lower().replace("-", "_")
    for name in known:
        if plain == name or (
            len(plain) > 4 and abs(len(plain) - len(name)) <= 2 and _distance(plain, name) <= 2
        ):
            return name
    return ""


@lru_cache(maxsize=4096)  # the models of a project have the same keys
def _distance(a: str, b: str) -> int:
    """An upper bound, from matching blocks, of how many letters must be changed, added or
    dropped.
    """
    blocks = difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    return max(len(a), len(b)) - sum(block.size for block in blocks)
