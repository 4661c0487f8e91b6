"""Mistakes of a model's or a profile's author: one class per kind, each with *Got / Expected*."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

from dbt.adapters.mvsink.error_codes import INTERNAL, Coded, internal
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.spark_words import SparkWords

MAX_NAME = 128  # characters of a schema's or a relation's name in Hive's metastore
SHOWN_OF_HOOK = 200  # characters


class MvsinkError(Coded, DbtRuntimeError):
    """Root of the adapter's own errors. Its message says what to do, and never has credentials. An
    error of a lower layer becomes one with that error's ``code``.
    """

    CODE = 10_100
    MESSAGE = "dbt-mvsink error"

    def __init__(self, message: str, code: str | None = None):
        super().__init__(masked(message))
        if code is not None:
            self.error_code = code


class SparkError(Coded, DbtDatabaseError):
    """Spark refused a statement, or it failed. ``code`` is that of the engine's class of it."""

    def __init__(self, words: SparkWords, code: str):
        super().__init__(masked(words.text))
        self.error_code, self.spark = code, words


class InternalError(MvsinkError):
    """A defect of the package: an exception that nothing in it expects, while ``doing``."""

    error_code = INTERNAL

    def __init__(self, doing: str, error: BaseException):
        super().__init__(internal(doing, error, "the traceback in logs/dbt.log"))


class InvalidOption(MvsinkError):
    """A model's config has a value that is not allowed."""

    error_code = "MVS-101"

    def __init__(self, model: str, option: str, value: Any, allowed: str):
        super().__init__(f"{model}: invalid config `{option}`\n  Got: {value!r}\n  Expected: {allowed}")


class RefreshesNeverHappen(MvsinkError):
    """All refreshes of a schedule are past, but the shard does not exist yet. Times are text."""

    error_code = "MVS-103"

    def __init__(self, model: str, value: Any, last: str, now: str):
        super().__init__(
            f"{model}: the specified refreshes would never happen: the last refresh is at {last}, now is {now}\n  Got: {value!r}\n"
            "  Expected: `refresh` with a time that is not past, with `every`, or with `at_creation: true`"
        )


class OptionNotOffered(MvsinkError):
    """A config that this release does not support."""

    error_code = "MVS-102"

    def __init__(self, model: str, option: str, value: Any, reason: str):
        super().__init__(f"{model}: config `{option}` (got {value!r}): {reason}")


class CannotImport(MvsinkError):
    """`mvsink import` of a model that has no table, or whose table does not fit."""

    error_code = "MVS-104"

    def __init__(self, model: str, reason: str):
        super().__init__(f"{model}: cannot be imported: {reason}")


class GrantsNotOffered(MvsinkError):
    """A model has `grants` where Spark has none; ``words`` are Spark's."""

    error_code = "MVS-105"

    def __init__(self, model: str, value: Any, words: str):
        super().__init__(
            f"{model}: config `grants` (got {value!r}) cannot be applied, because this Spark has no grants: {words.strip().splitlines()[0]}\n"
            "  Expected: no `grants` for this target, or `unsupported_grants: skip` in its profile, which skips them with a warning"
        )


class InvalidRunTime(MvsinkError):
    """The run's logical time is not a valid time."""

    error_code = "MVS-106"

    def __init__(self, source: str, value: Any):
        super().__init__(
            f"invalid {source}\n  Got: {value!r}\n  Expected: milliseconds since 1970-01-01 UTC, or an ISO 8601 date or "
            "timestamp, not before 1970"
        )


class HookFailed(MvsinkError):
    """A hook of a model or a seed failed: ``which`` one, with its ``text`` and the ``error``.

    ``committed`` says that the contents were written before it. ``several`` says that its text is
    more than one statement.
    """

    error_code = "MVS-137"

    def __init__(
        self, relation: str, which: str, text: str, error: str, *, committed: bool, several: bool = False
    ):
        plain = " ".join(text.split())
        short = plain if len(plain) <= SHOWN_OF_HOOK else plain[: SHOWN_OF_HOOK - 3] + "..."
        written = (
            "The contents are committed and readers see them; hooks after this one did not run"
            if committed
            else "Nothing was written; hooks before this one have run"
        )
        key = which.split(" ")[0].replace("-", "_")
        a_list = (
            f"\n  A hook is one statement; for several, write a list: `{key}: [first, second]`"
            if several
            else ""
        )
        super().__init__(
            f"{relation}: {which} failed: {error.strip()}\n  The hook: {short}{a_list}\n  {written}"
        )


class MicrobatchZone(MvsinkError):
    """dbt's `microbatch` in a session whose time zone is not UTC."""

    error_code = "MVS-138"

    def __init__(self, relation: str, zone: str):
        super().__init__(
            f"{relation}: incremental_strategy `microbatch` would lose rows, because the session's time zone is not UTC: dbt's batches begin "
            f"and end in UTC, and each replaces whole partitions, which are cut in the session's zone\n  Got: {zone}\n"
            "  Expected: `server_side_parameters: {spark.sql.session.timeZone: UTC}` in the profile, another strategy, or "
            "materialized: self_correcting_mv, which needs no batches"
        )


class OwnedByAnother(MvsinkError):
    """The shard belongs to another model or target."""

    error_code = "MVS-107"

    def __init__(self, model: str, uri: str, owner: str, me: str):
        super().__init__(
            f"{model}: shard {uri} belongs to {owner}, this run is {me}. Two owners would correct each other forever. Give "
            "this target another `schema` or `shard_root`, or set `adopt: true` on the model to take the shard over"
        )


class InvalidName(MvsinkError):
    """A schema or an alias that Spark refuses, or that would leave the directory of shards."""

    error_code = "MVS-108"

    def __init__(self, model: str, what: str, name: str, reason: str = ""):
        super().__init__(
            f"{model}: invalid {what}\n  Got: {name!r}{reason}\n  Expected: letters A to Z and a to z, digits and `_`, at most {MAX_NAME} characters"
        )


class NamesArePatterns(MvsinkError):
    """The session reads quoted names as regular expressions, in the adapter's statements too."""

    error_code = "MVS-109"

    def __init__(self, model: str):
        super().__init__(
            f"{model}: the session reads quoted names as patterns, so a name may stand for several columns\n"
            "  Got: spark.sql.parser.quotedRegexColumnNames = true\n  Expected: false"
        )


class ShardGone(MvsinkError):
    """The view or the table shows a shard that does not exist."""

    error_code = "MVS-110"

    def __init__(self, model: str, relation: str, uri: str, default: str, kind: str = "view"):
        super().__init__(
            f"{model}: its {kind} {relation} shows the shard {masked(uri)}, which does not exist. Its history, holds and progress would be lost\n"
            f"  Expected: the directory back in its place (is the disk mounted? a shard that was moved with `shard_root` is found at "
            f"{masked(default)}), or a new shard: --full-refresh for a view, --full-refresh with `mvsink_reset` for a task, or "
            f"`drop {kind} {relation}` first"
        )


class ModelRenamed(MvsinkError):
    """A new model has the query of one that is gone: most likely its file was renamed."""

    error_code = "MVS-111"

    def __init__(self, model: str, name: str, old: str, relation: str):
        super().__init__(
            f"{model}: has no shard yet, and {old}, which is no longer in the project, has one with the same query ({relation})\n"
            f"  Expected: `mvsink rename {old} {name}`, which keeps its history, its readers and the positions of tasks; or a new "
            f"shard beside it: --full-refresh"
        )


class ReadsItself(MvsinkError):
    """A self-correcting view whose query reads its own relation."""

    error_code = "MVS-112"

    def __init__(self, model: str, through: Sequence[str] = ()):
        views = f", which it does through the view {' and then '.join(through)}" if through else ""
        super().__init__(
            f"{model}: a self_correcting_mv cannot read itself{views}; "
            "its query defines what it should hold. Read other relations only, or make it a continual_task"
        )


class ReadOtherwise(MvsinkError):
    """A query that Spark reads differently once its relations are replaced by what a run reads."""

    error_code = "MVS-113"

    def __init__(self, model: str, names: list[str], problem: str):
        super().__init__(
            f"{model}: this adapter cannot replace {', '.join(names)} in its query by what the run reads of them without "
            f"a change of its meaning: {problem}. Give each relation an alias and qualify columns by it; "
            "and please report this, with the query"
        )


class NoColumns(MvsinkError):
    """A query without columns, which Spark allows (``select a from t |> drop a``)."""

    error_code = "MVS-136"

    def __init__(self, model: str):
        super().__init__(
            f"{model}: its query has no columns, but a model needs at least one\n  Expected: a column in the select list that is not "
            "dropped or excepted, such as `1 as one` for the number of rows"
        )


class SameColumnTwice(MvsinkError):
    """Columns that differ in case only; Delta Lake and the metastore do not distinguish them."""

    error_code = "MVS-114"

    def __init__(self, model: str, first: str, second: str):
        super().__init__(
            f"{model}: its columns `{first}` and `{second}` have the same name: column names of a table are not "
            "case-sensitive, whatever spark.sql.caseSensitive is: rename one"
        )


def check_distinct(model: str, columns: Sequence[str]) -> None:
    """Raises `SameColumnTwice`."""
    names: dict[str, str] = {}
    for name in columns:
        if name.lower() in names:
            raise SameColumnTwice(model, names[name.lower()], name)
        names[name.lower()] = name


class ReadOnlyRefused(MvsinkError):
    """A materialization that would write, in a read-only invocation."""

    error_code = "MVS-115"

    def __init__(self, model: str, materialized: str):
        super().__init__(
            f"read-only: would rebuild {model} ({materialized}); nothing is written in this invocation"
        )


class SampledRun(MvsinkError):
    """`--sample` on a shard that was created without it."""

    error_code = "MVS-116"

    def __init__(self, model: str):
        super().__init__(
            f"{model}: --sample works only on a shard that a sampled run created; here it would delete every row outside the sample. "
            "Give the sampled run another target or schema"
        )


class ConfigurationChanged(MvsinkError):
    """The definition differs from the shard's and `on_configuration_change` is `fail`."""

    error_code = "MVS-117"

    def __init__(self, model: str, changes: str):
        super().__init__(
            f"{model}: its {changes} differs from what the shard records, and on_configuration_change is 'fail'. Allowed: "
            "'apply', 'continue'"
        )


class InvalidArgument(MvsinkError):
    """An argument of a macro has a value that is not allowed."""

    error_code = "MVS-118"

    def __init__(self, macro: str, argument: str, value: Any, expected: str):
        super().__init__(f"{macro}: invalid argument `{argument}`\n  Got: {value!r}\n  Expected: {expected}")


class NoShard(MvsinkError):
    """A relation whose history is queried is not a shard."""

    error_code = "MVS-119"

    def __init__(self, macro: str, relation: str):
        super().__init__(
            f"{macro}: only a shard has a history, and {relation} is not one\n"
            "  Expected: a self_correcting_mv or a continual_task that has run in this target"
        )


class InputRefused(MvsinkError):
    """A relation that cannot be a task's input."""

    error_code = "MVS-120"

    def __init__(self, model: str, relation: str, reason: str):
        super().__init__(f"{model}: {relation}: {reason}")


class UnknownFixtureColumn(MvsinkError):
    """A unit test's rows for `this` have a column that the task's output does not have."""

    error_code = "MVS-121"

    def __init__(self, model: str, column: str, allowed: Sequence[str]):
        super().__init__(
            f"{model}: invalid column in the unit test's rows for `this`\n  Got: {column}\n  Expected: {', '.join(allowed)}"
        )


class InvalidFixtureValue(MvsinkError):
    """A value in a unit test's rows that is none of its column's type."""

    error_code = "MVS-139"

    def __init__(self, column: str, value: Any, kind: str, expected: str):
        super().__init__(
            f"invalid value of column `{column}` ({kind}) in a unit test's rows\n  Got: {value!r}\n  Expected: {expected}"
        )


class UnknownModel(MvsinkError):
    """A variable names a model that the project does not have, or not of this materialization."""

    error_code = "MVS-140"

    def __init__(self, variable: str, name: str, kind: str, known: Sequence[str], meant: str):
        question = f" Did you mean `{meant}`?" if meant else ""
        super().__init__(
            f"invalid variable `{variable}`: the project has no {kind} of this name.{question}\n  Got: {name!r}\n"
            f"  Expected: {', '.join(known) or f'nothing, for there is no {kind}'}"
        )


class UnknownAudit(MvsinkError):
    """`audit` names a test that does not read the model."""

    error_code = "MVS-122"

    def __init__(self, model: str, name: str, known: list[str]):
        expected = (
            f"names as in `dbt ls`, of tests that read the model: {', '.join(known) or 'there are none'}"
        )
        super().__init__(f"{model}: invalid config `audit`\n  Got: {name!r}\n  Expected: true, or {expected}")


class WrongProfile(MvsinkError):
    """A key of the profile is missing, unknown, or has a value that is not allowed."""

    error_code = "MVS-701"


class PackageMissing(MvsinkError):
    """PySpark, or its Connect client, is not installed or too old."""

    error_code = "MVS-702"


class InvalidSeed(MvsinkError):
    """A seed's file or its config cannot be used. The message names the file."""

    error_code = "MVS-132"

    @property
    def type(self) -> str:
        """The kind of error that dbt prints for what is wrong in a project's files."""
        return "Compilation"


class MacroRefused(MvsinkError):
    """A macro cannot do what it was called for."""

    error_code = "MVS-134"


class SystemRefused(MvsinkError):
    """The operating system or the network refuses a call: a full disk, a denied file."""

    error_code = "MVS-135"

    def __init__(self, doing: str, error: OSError):
        super().__init__(f"{doing}: {error.strerror or str(error) or type(error).__name__}{_of(error)}")


def _of(error: OSError) -> str:
    return f": {error.filename}" if error.filename and error.strerror else ""


class SetupFailed(MvsinkError):
    """A check of `dbt debug` failed."""

    error_code = "MVS-133"
