"""Whether Spark reads a query as this adapter does: the witness of every reading from which changes
are derived.

Spark decides this once per definition. The number of a reading that was compared is committed with
the contents' progress, so later runs need not ask: `SHARED` if Spark agrees with the reading,
`MISREAD` if it does not. A reading is the text, and the columns and types of what it reads, in
order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from dbt.adapters.mvsink.engine import Engine, EngineError
from dbt.adapters.mvsink.engine.session import session_of
from dbt.adapters.mvsink.incremental import Analysed, Claim, claims, pieces
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.per_invocation import PerInvocation
from dbt.adapters.mvsink.shard import number_of
from dbt.adapters.mvsink.user_sql.algebra import Refused
from dbt.adapters.mvsink.user_sql.marks import query_at

RULES = "1"  # another number: what was compared before proves nothing
SHARED, MISREAD = "witness/shared", "witness/misread"
OTHERWISE = "Spark reads the query otherwise than this adapter"

log = logging.getLogger("mvsink.witness")
# by text: the number of its reading, and why that is misread, empty if it is not
_verdicts: PerInvocation[dict[str, tuple[int, str]]] = PerInvocation(dict)


def misread(
    context: RunContext, query: str, analysed: Analysed, recorded: Callable[[str], int | None]
) -> str:
    """The reason if Spark does not read ``query`` as ``analysed``; empty if it does. ``recorded``
    is the progress of the model's contents.
    """
    number = _number(context, analysed)
    known = _verdicts.of(context.invocation.id)
    if known.get(context.query, (0, ""))[0] != number:
        known[context.query] = number, _verdict(context, query, analysed, recorded, number)
    return known[context.query][1]


def _verdict(
    context: RunContext,
    query: str,
    analysed: Analysed,
    recorded: Callable[[str], int | None],
    number: int,
) -> str:
    if recorded(SHARED) == number:
        return ""
    if recorded(MISREAD) == number and not context.invocation.explain:
        return f"{OTHERWISE} (`mvsink explain` shows where)"
    return _compared(context.engine, query, analysed)


def numbers(context: RunContext, recorded: Callable[[str], int | None] | None) -> Mapping[str, int]:
    """What to record about the model's reading: this run's verdict, else the earlier one."""
    known = _verdicts.of(context.invocation.id).get(context.query)
    if known is not None:
        return {MISREAD if known[1] else SHARED: known[0]}
    earlier = {} if recorded is None else {name: recorded(name) for name in (SHARED, MISREAD)}
    return {name: number for name, number in earlier.items() if number is not None}


def _number(context: RunContext, analysed: Analysed) -> int:
    columns = [f"{name} {analysed.names.columns_of(name)}" for name in analysed.relations]
    return asked_of(context.engine, RULES, f"sql {query_at(context.query, 0)}", *columns)


def asked_of(engine: Engine, rules: str, *texts: str) -> int:
    """The number of a question about texts that this Spark always answers in the same way. With
    another number of ``rules`` it is asked again.
    """
    return number_of([f"rules {rules}", f"spark {session_of(engine).version}", *texts])


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
    """The line of the innermost part of the query that Spark reads differently; empty if only the
    whole is.
    """
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
