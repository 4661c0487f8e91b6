"""Models over tables that change, round by round: what the long tests have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.engine import EngineError
from tests.long.contents import Contents
from tests.long.judge import FAILED, Case, Judge
from tests.long.kept import Kept
from tests.support.maintained import Warehouse

REFUSED = "refused: a relation of types that no shard keeps"


@dataclass
class Tables:
    """Relations as maintained tables. ``names``: the schema and name of each."""

    warehouse: Warehouse
    names: dict[Contents, tuple[str, str]] = field(default_factory=dict)
    shown: dict[Contents, int] = field(default_factory=dict)  # the round whose rows a table has

    def change(self, random: Random, share: float) -> None:
        """So many of them get other rows."""
        for contents in self.names:
            if random.random() < share:
                contents.change(random)

    def run(self, cases: Sequence[Case]) -> None:
        """Bring the tables that ``cases`` read to their contents. Those of types that no shard
        keeps are none, and end the cases that read them.
        """
        for contents in [each for each in self.names if self.shown.get(each) != each.round]:
            reading = [case for case in cases if not case.ended and contents in case.relations.values()]
            if not reading:
                continue
            try:
                self.warehouse.run(*self.names[contents], contents.query())
            except DbtRuntimeError as error:
                if contents in self.shown:
                    raise
                refused = f"{FAILED}: a relation" if isinstance(error.__cause__, EngineError) else REFUSED
                for case in reading:
                    case.end(refused, str(error))
            else:
                self.shown[contents] = contents.round


def run(judge: Judge, tables: Tables, cases: Sequence[Case], kept: Kept, rounds: int, share: float) -> None:
    """The first load of ``cases`` and so many rounds, in each of which a ``share`` of the tables
    changes; and what came of each case is kept.
    """
    for number in range(rounds + 1):
        if number:
            judge.warehouse.next_round()
            tables.change(judge.random, share)
        tables.run(cases)
        # one round of a query of constants shows that nothing changes it
        judge.round([case for case in cases if case.relations or number < 2], first=number == 0)
    for case in reversed(cases):  # the first one last: it says that all of them are there
        more = {"query": case.text or case.model, "detail": case.detail} if case.detail else {}
        kept.add(case.name, case.outcomes, **more)
