"""Why a run evaluates its query instead of computing from the changes of its inputs.

A reason is a value, `Why`, with a text for people. The log keeps both, and later runs decide by the
value alone, so that the text can be changed:

    >>> EvaluateFully(Why.MUCH_CHANGED, "shop.orders", "31%").text
    'shop.orders changed by 31%'
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dbt.adapters.mvsink import limits


class How(enum.Flag):
    """What a reason means for the run. With ``EXPECTED``, even `incremental: always` lets the query
    be evaluated, because the next run can be incremental again. ``USUAL`` reasons hold for most
    runs of the model, so dbt's line does not show them.
    """

    PLAIN = 0
    EXPECTED = 1
    USUAL = 2
    BOTH = 3


class Why(enum.Enum):
    """Each has its name in the log, its text, with ``{}`` for what it is about, and its `How`."""

    UNSAID = "", "", How.PLAIN

    # the user's word, and what the shard records
    NEVER = "never", "incremental: never", How.BOTH
    DRIFTED = (
        "drifted",
        "its contents had drifted, and no verification has found them correct since",
        How.PLAIN,
    )
    DRIFTED_TWICE = (
        "drifted_twice",
        f"its contents drifted twice within {limits.DRIFTS_AGAIN // limits.DAY} days",
        How.PLAIN,
    )
    RECORDED_ERRORS = "recorded_errors", "it holds recorded errors", How.BOTH
    NOTHING_RECORDED = "nothing_recorded", "what its contents were computed from is not known", How.BOTH
    OTHER_TOOL = "other_tool", "another tool wrote to its shard", How.EXPECTED
    REDEFINED = "redefined", "its query, its options, a view or a setting of the session changed", How.BOTH

    # the query
    UNCERTAIN = "uncertain", "{}", How.USUAL
    NOT_INCREMENTAL = "not_incremental", "{}", How.USUAL
    NAMED_TWICE = "named_twice", "it reads {} in two ways, or from two catalogs", How.USUAL

    # its inputs
    UNKNOWN_INPUT = "unknown_input", "{}", How.USUAL
    NO_POSITION = "no_position", "no earlier position of {} is recorded", How.BOTH
    COLUMNS = "columns", "the columns of {} changed", How.EXPECTED
    NO_CHANGES = "no_changes", "{} changed, and what changed in it is not known{}", How.USUAL
    NEW_FILES = "new_files", "{} changed: {}{}", How.USUAL
    NOT_READ_HERE = (
        "not_read_here",
        "{} changed, and the query is read here as if it did not have it",
        How.PLAIN,
    )
    NEVER_CHANGES = "never_changes", "what changes in {} is not known", How.USUAL
    EARLIER_TIME = "earlier_time", "{} is read at an earlier time than before", How.PLAIN
    EARLIER_VERSION = "earlier_version", "{} is read at an earlier version than before", How.PLAIN
    NO_VERSION = "no_version", "no earlier version of {} is recorded", How.PLAIN
    HISTORY_GONE = "history_gone", "{} no longer has the history since the last run", How.PLAIN
    LOG_GONE = "log_gone", "the log of {} does not go back to the last refresh", How.PLAIN
    MANY_COMMITS = "many_commits", "{} has {} commits since", How.PLAIN
    INPUT_ERRORS = "input_errors", "{} may hold recorded errors", How.PLAIN
    INPUT_REWRITTEN = "input_rewritten", "another tool wrote to {}", How.PLAIN
    UNREADABLE = "unreadable", "{}", How.PLAIN
    READ_OTHERWISE = (
        "read_otherwise",
        "with {} Spark reads the data files of {} otherwise than the table",
        How.PLAIN,
    )
    MOVED = "moved", "an input changed while its change was computed", How.EXPECTED

    # what it would cost
    SMALL = "small", "its data is small", How.USUAL
    QUICK = "quick", f"evaluating the query takes less than {limits.QUICK_EVALUATION:g} s", How.USUAL
    SLOW = "slow", "its incremental runs took as long as evaluating the query", How.PLAIN
    NEVER_EVALUATED = (
        "never_evaluated",
        "how long evaluating its query takes is guessed from its first load alone",
        How.PLAIN,
    )
    ALL_ROWS = "all_rows", "all of its rows may differ", How.USUAL
    MUCH_CHANGED = "much_changed", "{} changed by {}", How.PLAIN
    USUALLY_MUCH = (
        "usually_much",
        "much of an input may have changed, as it had in earlier runs",
        How.PLAIN,
    )
    MANY_KEYS = "many_keys", f"more than {limits.MAX_KEYS:.0%} of its keys may differ", How.PLAIN
    USUALLY_MANY_KEYS = (
        "usually_many_keys",
        f"more than {limits.MAX_KEYS:.0%} of its keys changed in earlier runs",
        How.PLAIN,
    )

    # what went wrong on the way
    QUERY_FAILED = "query_failed", "the query of the change failed", How.PLAIN
    ROW_MISSING = "row_missing", "a row that changes is not in the table", How.PLAIN
    ROW_AMBIGUOUS = (
        "row_ambiguous",
        "a row that changes cannot be looked up: two have one hash",
        How.PLAIN,
    )
    ELSEWHERE = "elsewhere", "a preview stages on this machine, and Spark runs elsewhere", How.USUAL
    SUMS_NEW = "sums_new", "its sums are new", How.EXPECTED
    SUMS_CHANGES = "sums_changes", "{}", How.EXPECTED
    SUMS_QUERY = "sums_query", "{}", How.PLAIN
    SUMS_FAILED = "sums_failed", "the query over its sums failed: {}", How.PLAIN

    def __init__(self, code: str, words: str, how: How):
        self.code, self.words, self.how = code, words, how

    @property
    def short(self) -> str:
        """Its name for dbt's line.

        >>> Why.MUCH_CHANGED.short
        'much changed'
        """
        return self.code.replace("_", " ")


@dataclass(frozen=True, init=False)
class EvaluateFully:
    """The query is evaluated and all contents are compared, for the reason ``why``, which is
    ``about`` something. ``share`` is the largest share of an input's rows that was seen to have
    changed, if the changes were read before.
    """

    why: Why
    about: tuple[str, ...]
    share: float | None = None

    def __init__(self, why: Why = Why.UNSAID, *about: str, share: float | None = None):
        object.__setattr__(self, "why", why)
        object.__setattr__(self, "about", about)
        object.__setattr__(self, "share", share)

    def after(self, share: float | None) -> EvaluateFully:
        """The same, with the ``share``."""
        return EvaluateFully(self.why, *self.about, share=share)

    @property
    def text(self) -> str:
        """The reason as a clause; empty if there is nothing to say."""
        return self.why.words.format(*self.about)

    @property
    def expected(self) -> bool:
        """Whether `incremental: always` allows it."""
        return How.EXPECTED in self.why.how

    @property
    def usual(self) -> bool:
        """Whether the reason holds for most runs of the model."""
        return How.USUAL in self.why.how
