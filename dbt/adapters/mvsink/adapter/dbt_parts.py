"""What dbt's own parts around a model need: hooks, microbatches, rows of unit tests, comments.

dbt reports an engine's error of a hook as the model's own; here it says which hook failed, and what
has become of the contents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dbt.adapters.base.meta import AdapterMeta, available
from dbt.adapters.spark.impl import SparkAdapter
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine
from dbt.adapters.mvsink.engine.session import session_of
from dbt.adapters.mvsink.engine.sql import constant
from dbt.adapters.mvsink.exceptions import HookFailed, MicrobatchZone
from dbt.adapters.mvsink.materialization.fixture_values import fixture_value
from dbt.adapters.mvsink.user_sql.words import UnreadableText, words

if TYPE_CHECKING:
    from dbt.adapters.mvsink.relation import MvsinkRelation

PRE, POST = "pre-hook", "post-hook"
# names of UTC
UTC = frozenset(
    f"{area}{name}" for area in ("", "Etc/") for name in ("UTC", "UCT", "GMT", "GMT0", "Zulu", "Universal")
) | {"Z", "+00:00", "Greenwich", "Etc/Greenwich"}
SCRIPT = "BEGIN"  # Spark's scripts are several statements, which it runs as one


class DbtPartsAdapter(SparkAdapter, metaclass=AdapterMeta):
    """Part of the adapter."""

    @available.parse_none
    def mv_run_hooks(
        self,
        kind: str,
        hooks: Sequence[Mapping[str, Any]],
        render: Callable[[str], str],
        relation: MvsinkRelation,
    ) -> None:
        """Run every hook, whatever its `transaction`, and without dbt's `commit;`, which is a
        syntax error in Spark.

        ``kind`` is `PRE` or `POST`. A hook is rendered directly before it runs, and its macros may
        send statements. Raises `HookFailed`.
        """
        for number, hook in enumerate(hooks, 1):
            text = str(hook.get("sql") or "")
            try:
                rendered = str(render(text)).strip()
                if rendered:
                    text = rendered
                    self.execute(rendered, auto_begin=False, fetch=False)
            except DbtRuntimeError as error:
                which = kind if len(hooks) == 1 else f"{kind} {number} of {len(hooks)}"
                raise HookFailed(
                    str(relation), which, text, error.msg, committed=kind == POST, several=is_several(text)
                ) from error

    @available.parse_none
    def mv_check_microbatch(self, relation: MvsinkRelation) -> None:
        """Raises `MicrobatchZone` if the session's zone is not UTC. dbt cuts batches in UTC, and
        dbt-spark replaces the partitions that a batch has rows of: in another zone a day's
        partition has rows of two batches, and the second one replaces those of the first.
        """
        zone = session_of(AdapterEngine(self, str(relation))).zone
        if zone not in UTC:
            raise MicrobatchZone(str(relation), zone)

    @available.parse(lambda *_, **__: "null")
    def mv_fixture_value(self, column: str, value: Any, kind: str) -> str:
        """See `fixture_value`."""
        return fixture_value(column, value, kind)

    @available.parse(lambda *_, **__: "''")
    def mv_literal(self, text: str) -> str:
        """``text`` as the literal that a comment needs."""
        return constant(text)


def is_several(hook: str) -> bool:
    """Whether a rendered hook is more than the one statement that Spark takes."""
    try:
        signs = [word.upper for word in words(hook)]
    except UnreadableText:
        return False
    while signs and signs[-1] == ";":
        signs.pop()
    return ";" in signs and signs[0] != SCRIPT
