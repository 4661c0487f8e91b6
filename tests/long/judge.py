"""Runs models round by round, and says of each what came of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.exceptions import SameColumnTwice
from tests.long.contents import Contents
from tests.support.maintained import Warehouse, multiset

DIFFERS, FAILED = "differs", "run failed"
DEFECTS = (DIFFERS, FAILED)
TOO_MANY = 5000  # rows


@dataclass
class Case:
    """A query. ``text``: as it was written; ``model``: with its ``relations`` under the names that
    `references` have. Without a ``text`` Spark is asked for the model's, over the published views.
    """

    name: str
    text: str
    model: str
    relations: Mapping[str, Contents]  # by the names in ``text``
    references: Sequence[str]
    options: Mapping[str, Any] = field(default_factory=dict)
    outcomes: list[str] = field(default_factory=list)
    detail: str = ""
    ended: bool = False
    named: bool = False  # its columns have got names, because two had one

    def end(self, outcome: str, detail: str = "") -> None:
        self.outcomes.append(outcome)
        self.detail, self.ended = detail[:3000], True


class Judge:
    """``witness``: a session in which Spark evaluates the texts over the same rows as constants."""

    def __init__(self, warehouse: Warehouse, schema: str, witness: Any, random: Random):
        self.warehouse, self.schema, self.witness, self.random = warehouse, schema, witness, random
        self.columns: dict[str, list[str]] = {}
        self._shown: dict[str, tuple[Contents, int]] = {}

    def round(self, cases: Sequence[Case], first: bool) -> None:
        """One run of every case; ``first``: their first load, which counts only if it is wrong."""
        for case in cases:
            if not case.ended:
                self._run(case, first)

    def expected(self, case: Case, shuffled: bool = False) -> Any:
        """The rows that Spark gives, or the error."""
        for name, contents in case.relations.items() if case.text else ():
            self._show(name, contents, shuffled)
        try:
            table = self.witness.sql(case.text or case.model).toArrow()
            self.columns[case.name] = table.column_names
            return multiset(table) if table.num_rows <= TOO_MANY else f"more than {TOO_MANY} rows"
        except Exception as error:
            named = re.search(r"\[([A-Z_0-9.]+)\]", str(error))
            return f"query fails: {named[1] if named else _short(error)}"

    def _show(self, name: str, contents: Contents, shuffled: bool) -> None:
        wanted = (contents, contents.round)
        if self._shown.get(name) == wanted and not shuffled:
            return
        order = None
        if shuffled:
            order = self.random.sample(range(len(contents.rows)), len(contents.rows))
        frame = contents.frame(order)
        from pyspark.sql import DataFrame

        moved = self.witness._jsparkSession.createDataFrame(frame._jdf.collectAsList(), frame._jdf.schema())
        DataFrame(moved, self.witness).createOrReplaceTempView(name)
        self._shown[name] = (contents, -1 if shuffled else contents.round)

    def _run(self, case: Case, first: bool) -> None:
        expected = self.expected(case)
        if isinstance(expected, str):
            case.end(expected)
            return
        name, publish = re.sub(r"\W", "_", case.name), first or self.random.random() < 0.2
        try:
            response = self.warehouse.run(
                self.schema, name, case.model, case.references, publish=publish, **case.options
            )
        except SameColumnTwice as error:
            if case.named:
                case.end(f"refused: {_reason(_short(error))}", str(error))
            else:  # as anyone would who keeps such a query
                columns = ", ".join(f"_c{n}" for n in range(len(self.columns[case.name])))
                case.model, case.named = f"select * from (\n{case.model}\n) as _named({columns})", True
                self._run(case, first)
            return
        except Exception as error:
            self._failed(case, error, first)
            return
        try:
            columns = self.columns[case.name]
            if case.named:
                columns = [f"_c{n}" for n in range(len(columns))]
            contents = self.warehouse.stored(self.schema, name, columns)
            if (publish and not first) or contents != expected:
                contents = self.warehouse.rows(self.schema, name)
        except Exception as error:
            case.end(f"{FAILED}: it cannot be read", str(error))
            return
        if contents != expected:
            self._differs(case, expected, contents, response.mode, first)
        elif not first:
            how = response.mode
            if how == "evaluated":
                how = f"evaluated: {_reason(response.not_incremental)}"
            case.outcomes.append(f"right, {how}")

    def _failed(self, case: Case, error: Exception, first: bool) -> None:
        """Whether the query itself, over the published relations, works."""
        try:
            self.warehouse.session.sql(case.model).toArrow()
        except Exception as own:
            case.end("not rewritten", str(own))
            return
        engines = "Spark" in str(error) or "SQLSTATE" in str(error) or not isinstance(error, DbtRuntimeError)
        if first and not engines:
            case.end(f"refused: {_reason(_short(error))}", str(error))
        else:
            case.end(f"{FAILED}: {_reason(_short(error))}", str(error))

    def _differs(self, case: Case, expected: Any, contents: Any, mode: str, first: bool) -> None:
        for _ in range(3):
            if self.expected(case, shuffled=True) != expected:
                case.end("not repeatable")
                return
        try:
            if multiset(self.warehouse.session.sql(case.model).toArrow()) != expected:
                case.end("not rewritten", "the rewritten text gives other rows")
                return
        except Exception as error:
            case.end("not rewritten", str(error))
            return
        missing, more = list((expected - contents).items())[:5], list((contents - expected).items())[:5]
        case.end(f"{DIFFERS}: {'first load' if first else mode}", f"missing {missing}, too many {more}")


def _short(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if isinstance(error, DbtRuntimeError) and lines else (lines or [type(error).__name__])[0]


def _reason(text: str) -> str:
    """A reason without what differs from query to query."""
    text = re.sub(r"^line \d+: ", "", text)
    text = re.sub(r"`[^`]*`(\.`[^`]*`)*", "_", text)
    text = re.sub(r"\b[a-z]\w*\.\w+\b", "_", text)
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "_", text)
    return re.sub(r"\d+", "N", text)[:100]
