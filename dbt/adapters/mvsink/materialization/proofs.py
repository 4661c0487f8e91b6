"""Which models prove in this run that the changes of their queries are read right (`sink.trust`).

Another number of the rules makes every model's reading a new one. A run in which all of them
evaluated their queries would take far longer than the last, so a tenth of them do; the others
follow in later runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.materialization.own_text import CompiledText
from dbt.adapters.mvsink.per_invocation import PerInvocation
from dbt.adapters.mvsink.sink import Independent, Proving

SHARE = 10  # one of so many models


@dataclass
class _Admitted:
    """The models that an invocation has admitted."""

    models: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, model: str, most: int) -> bool:
        with self.lock:
            if model not in self.models and len(self.models) >= most:
                return False
            self.models.add(model)
            return True


_admitted: PerInvocation[_Admitted] = PerInvocation(_Admitted)


def independent(
    context: RunContext, references: References, recorded: Callable[[str], int | None]
) -> Independent:
    """What the contents of the model are compared with, and when. ``references``: what its query
    reads; ``recorded``: the progress of its contents.
    """
    own_text = CompiledText(context, references)
    if context.options.verify.never or context.read_only or context.invocation.rehearsal:
        return Independent(own_text)

    def admitted() -> bool:
        most = max(1, _views(context.manifest) // SHARE)
        return _admitted.of(context.invocation.id).admit(context.unique_id, most)

    return Independent(own_text, Proving(recorded, admitted))


def _views(manifest: Any) -> int:
    """How many views are maintained."""
    nodes = manifest.nodes.values()
    return sum(node.config.materialized == "self_correcting_mv" for node in nodes)
