"""Warnings of options that ask for what a view's query does not allow."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from dbt.adapters.mvsink.incremental import NotIncremental
from dbt.adapters.mvsink.materialization.errors import LOWER_ERRORS
from dbt.adapters.mvsink.materialization.evidence import InputEvidence
from dbt.adapters.mvsink.materialization.explain import unfit
from dbt.adapters.mvsink.materialization.opening import Opened
from dbt.adapters.mvsink.materialization.sums import KeptSums
from dbt.adapters.mvsink.shard import ShardState
from dbt.adapters.mvsink.sink import SumsPolicy

log = logging.getLogger("mvsink.sink.write")


def option_warnings(
    evidence: InputEvidence | None,
    opened: Opened,
    before: ShardState,
    kept: KeptSums | NotIncremental | None,
) -> Iterator[str]:
    """After a run of the opened view, whose shard was ``before``, with the sums that it ``kept``,
    or why it cannot keep any. Of `incremental` a run warns for which the query, or what decides its
    contents, is new: it evaluated the query, the runs after it fail.
    """
    context, timing = opened.context, opened.timing
    if isinstance(kept, NotIncremental) and context.options.state is SumsPolicy.ALWAYS:
        yield f"`state` is always, but it keeps no sums: {kept.reason}"
    same = before.readable and not timing.generation and before.plan == opened.handle.state().plan
    if same or evidence is None or timing.time is None or context.read_only:
        return
    try:
        reason = unfit(evidence, opened, timing.time)
    except LOWER_ERRORS as error:  # the run itself has succeeded
        log.info("%s: what later runs will do is not known: %s", context.model, error)
        return
    if reason:
        yield f"`incremental` is always, but runs after this one cannot be, and will fail: {reason}"
