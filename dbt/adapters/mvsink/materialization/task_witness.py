"""Whether Spark agrees with how a task's texts treat each row of the input: whether its time can be
carried through the statements, and through a view that is the input. Asked once per definition.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dbt.adapters.mvsink.continual_task import bind
from dbt.adapters.mvsink.continual_task.carry_time import carry_time, stateless
from dbt.adapters.mvsink.continual_task.statements import Insert, Program
from dbt.adapters.mvsink.engine import Column, Engine, EngineError
from dbt.adapters.mvsink.engine.plan_text import STAND_IN, carries
from dbt.adapters.mvsink.exceptions import InputRefused
from dbt.adapters.mvsink.materialization.task_inputs import Source
from dbt.adapters.mvsink.materialization.witness import OTHERWISE, asked_of
from dbt.adapters.mvsink.physical import TIME
from dbt.adapters.mvsink.user_sql.marks import NOW

RULES = "1"  # another number: what was compared before proves nothing
SHARED, MISREAD = "times_shared", "times_misread"  # properties of the output: numbers of texts
WITH_TIMES = f"select * from {STAND_IN}"
WITHOUT_TIMES = f"select * except ({TIME}) from {STAND_IN}"

log = logging.getLogger("mvsink.witness")


@dataclass(frozen=True)
class Times:
    """The claims of a task. ``timed`` are the relations that it reads whose contents depend on the
    time.
    """

    model: str
    engine: Engine
    program: Program
    source: Source
    timed: Sequence[str]

    def check_input(self, properties: Mapping[str, str]) -> None:
        """Raises `InputRefused` if Spark reads the view that is the input differently.
        ``properties`` are the output's.
        """
        view = self.source.view
        if view is None or self._number in (properties.get(SHARED), properties.get(MISREAD)):
            return
        if not self._shared(view.plain(WITHOUT_TIMES), view.carried(WITH_TIMES), view.columns):
            raise InputRefused(self.model, view.name, f"{OTHERWISE}, so its changes are not known")

    def carried(self, properties: Mapping[str, str]) -> bool:
        """Whether several times may be computed together. ``properties`` are the output's."""
        claims = list(self._statements())
        if not claims or properties.get(SHARED) == self._number:
            return bool(claims)
        if properties.get(MISREAD) == self._number:
            return False
        return all(self._shared(*claim, self.source.columns) for claim in claims)

    def properties(self, *, carried: bool) -> dict[str, str]:
        """The properties to keep, so that later runs need not ask."""
        asked = bool(self.source.view or list(self._statements()))
        misread = not carried and bool(list(self._statements()))
        return {MISREAD if misread else SHARED: self._number} if asked else {}

    def _statements(self) -> Iterator[tuple[str, str]]:
        """Each statement's query without the times and with them; none if the times run one by one
        anyway.
        """
        if stateless(self.program, self.timed) is None:
            return
        for statement in self.program.statements:
            assert isinstance(statement, Insert)
            query = NOW.sub("timestamp_millis(1L)", statement.query)  # else it is the time itself
            carried = carry_time(query, self.program.input.name)
            if carried is not None:
                without, rows = (bind.StatementBindings(each, "") for each in (WITHOUT_TIMES, WITH_TIMES))
                yield bind.bind(self.program, query, without), bind.bind(self.program, carried, rows)

    def _shared(self, plain: str, carried: str, columns: Sequence[Column]) -> bool:
        described = [(column.name, column.type.spelled) for column in columns]
        reason = OTHERWISE
        try:
            if carries(self.engine, plain, carried, described):
                return True
        except EngineError as error:
            reason = error.message.splitlines()[0]
        log.info("%s: %s\n  the query: %s\n  with the times: %s", self.model, reason, plain, carried)
        return False

    @property
    def _number(self) -> str:
        view, columns = self.source.view, list(map(str, self.source.columns))
        behind = [] if view is None else [view.carried(WITH_TIMES), str(list(map(str, view.columns)))]
        statements = [part for claim in self._statements() for part in claim]
        return str(asked_of(self.engine, RULES, str(columns), *behind, *statements))
