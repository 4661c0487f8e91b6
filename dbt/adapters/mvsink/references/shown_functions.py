"""What Spark says about the user's own functions. Redefining a function changes the definition of
the models that name it, as far as Spark shows the change.

Spark shows the text of an SQL function and the class of a Java function. It shows neither the code
of a temporary Python function, nor the jar that a class comes from, nor what an SQL function calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dbt.adapters.mvsink.engine import Engine, EngineError, sql
from dbt.adapters.mvsink.per_invocation import PerInvocation
from dbt.adapters.mvsink.shard_sql.stager import EXACT

# what changes when a function is created again as it was, or registered by another process; the
# settings that we set while we write are recorded with a function, too
_OURS = "|".join(map(re.escape, EXACT))
_CREATION = re.compile(
    rf'^(?:Create Time|Owner):.*|"(?:sqlFunction\.(?:createTime|owner)|sqlConfig\.(?:{_OURS}))":"[^"]*",?|\$\$Lambda\S*',
    re.MULTILINE,
)
_shown: PerInvocation[dict[str, str]] = PerInvocation(dict)


def shown_functions(engine: Engine, functions: Iterable[str], invocation_id: str) -> list[str]:
    """A text for each of the ``functions``, whatever their order and case; they may name a schema.
    Each is asked for once in an invocation.
    """
    known = _shown.of(invocation_id)
    for name in sorted({name.lower() for name in functions}):
        if name not in known:
            known[name] = _description(engine, name)
    return [f"function {name}: {known[name]}" for name in sorted({name.lower() for name in functions})]


def _description(engine: Engine, name: str) -> str:
    """Empty if there is no such function."""
    try:
        quoted = sql.qualified(name.split("."))
        rows = engine.query(f"describe function extended {quoted}", "functions")
    except EngineError:
        return ""
    return _CREATION.sub("", "\n".join(str(row[0]) for row in rows))
