"""Whether Spark reads a query as this adapter does: the witness of every reading from which changes
are derived.

Spark decides it once per definition. The number of a reading that was compared is committed with
the contents' progress, so later runs ask nothing: `SHARED` for one that Spark shares, `MISREAD` for
one that it does not. A reading is the text, and the columns and types of what it reads, in order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from dbt.adapters.mvsink.engine import Engine, EngineError
from dbt.adapters.mvsink.incremental import Analysed, Claim, Refused, claims, pieces
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.references.per_invocation import PerInvocation
from dbt.adapters.mvsink.references.session import session_of
from dbt.adapters.mvsink.shard import number_of
from dbt.adapters.mvsink.user_sql.marks import query_at

RULES = "1"  # another number: what was compared before proves nothing
SHARED, MISREAD = "witness/shared", "witness/misread"
OTHERWISE = "Spark reads the query otherwise than this adapter"

log = logging.getLogger("mvsink.witness")
# by text and number: where it is misread, as a reason; empty if it is not
_verdicts: PerInvocation[dict[tuple[str, int], str]] = PerInvocation(dict)


def misread(
    context: RunContext, query: str, analysed: Analysed, recorded: Callable[[str], int | None]
) -> str:
    """Why ``analysed`` is not what Spark takes ``query`` for, as a reason; empty if it is.
    ``recorded``: the progress of the model's contents.
    """
    number = _number(context, analysed)
    known = _verdicts.of(context.invocation.id)
    key = (context.query, number)
    if key not in known:
        if recorded(SHARED) == number:
            known[key] = ""
        elif recorded(MISREAD) == number and not context.invocation.explain:
            known[key] = f"{OTHERWISE} (`mvsink explain` shows where)"
        else:
            known[key] = _compared(context.engine, query, analysed)
    return known[key]


def numbers(context: RunContext, recorded: Callable[[str], int | None] | None) -> Mapping[str, int]:
    """What to record of the model's reading: this run's verdict, else the earlier one."""
    for (text, number), reason in _verdicts.of(context.invocation.id).items():
        if text == context.query:
            return {MISREAD if reason else SHARED: number}
    earlier = {} if recorded is None else {name: recorded(name) for name in (SHARED, MISREAD)}
    return {name: number for name, number in earlier.items() if number is not None}


def _number(context: RunContext, analysed: Analysed) -> int:
    columns = [f"{name} {analysed.names.columns_of(name)}" for name in analysed.relations]
    version = session_of(context.engine).version
    return number_of([f"rules {RULES}", f"spark {version}", f"sql {query_at(context.query, 0)}", *columns])


def _compared(engine: Engine, query: str, analysed: Analysed) -> str:
    try:
        every = claims(query, analysed)
    except Refused as refused:
        return f"it cannot be compared with Spark's reading: {refused.reason}"
    for claim in every:
        try:
            if _same(engine, claim):
                continue
            reason = OTHERWISE
        except EngineError as error:
            reason = f"{OTHERWISE}: {str(error).splitlines()[0]}"
        log.info("%s\n  the query: %s\n  as it is read: %s", reason, claim.text, claim.explicit)
        return f"{_place(engine, analysed)}{reason}"
    return ""


def _place(engine: Engine, analysed: Analysed) -> str:
    """The line of the innermost part of the query that is read otherwise; empty for the whole."""
    written = analysed.written or analysed
    for line, piece in pieces(written):
        try:
            if not _same(engine, piece):
                return f"line {line}: "
        except EngineError:  # a part that names columns of what is around it
            continue
    return ""


def _same(engine: Engine, claim: Claim) -> bool:
    return engine.same_plan(claim.text, claim.explicit, claim.stand_ins)
