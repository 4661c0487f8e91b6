"""Errors of a continual task, by kind. Messages name model, statement and place in the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.engine import DataflowError, EngineError

HEADS = (
    "`on input {{ ref('...') }} as ( statements )`, `from transform {{ ref('...') }} using ( query )` or "
    "`from retain {{ ref('...') }} while ( predicate )`"
)


@dataclass(frozen=True)
class Place:
    """A position in a model's text; ``statement`` counts from 0, None is outside of statements."""

    model: str
    text: str
    offset: int
    statement: int | None = None

    @property
    def line(self) -> int:
        """The number of the line, from 1."""
        return self.text.count("\n", 0, self.offset) + 1

    def shown(self) -> str:
        """The line with a caret below the position."""
        start = self.text.rfind("\n", 0, self.offset) + 1
        end = self.text.find("\n", self.offset)
        line = self.text[start : end if end >= 0 else len(self.text)].rstrip()
        blank = "".join(c if c == "\t" else " " for c in self.text[start : self.offset])
        return f"line {self.line}:\n  {line}\n  {blank}^"


class TaskError(DataflowError):
    """Root of the errors of a task."""


class TaskSyntax(TaskError):
    """Root of the errors at one place of a task's text."""

    def __init__(self, place: Place, message: str):
        statement = "" if place.statement is None else f"statement {place.statement}: "
        super().__init__(f"{place.model}: {statement}{message}\n{place.shown()}")
        self.place = place


class NoHead(TaskSyntax):
    """The text does not start with the head of a task."""

    error_code = "MVS-501"

    def __init__(self, place: Place):
        super().__init__(
            place,
            f"a continual task is {HEADS}. A query alone is a model with materialized='self_correcting_mv'",
        )


class SeveralInputs(TaskSyntax):
    """More than one input."""

    error_code = "MVS-502"

    def __init__(self, place: Place, actual: Sequence[str]):
        super().__init__(
            place,
            f"several inputs are not supported: got {', '.join(actual)}. A continual task has one input, whose changes drive it; "
            "its statements may read any other relation as a reference",
        )


class OwnOutputAsInput(TaskSyntax):
    """`{{ this }}` as the input."""

    error_code = "MVS-503"

    def __init__(self, place: Place, this: str):
        super().__init__(place, f"a continual task cannot use its own output {this} as its input")


class TextAfterStatements(TaskSyntax):
    """Text after the closing parenthesis."""

    error_code = "MVS-504"

    def __init__(self, place: Place):
        super().__init__(place, "nothing may follow the closing parenthesis of a continual task")


class UnknownStatement(TaskSyntax):
    """A statement that a task cannot run."""

    error_code = "MVS-505"

    def __init__(self, place: Place, actual: str):
        super().__init__(
            place, f"got {actual}, expected INSERT INTO, DELETE FROM, UPDATE or MERGE INTO {{{{ this }}}}"
        )


class WrongTarget(TaskSyntax):
    """A statement that writes to another relation than the task's output."""

    error_code = "MVS-506"

    def __init__(self, place: Place, actual: str, this: str):
        super().__init__(
            place,
            f"writes {actual}; several outputs are not supported: a continual task writes its own output only, {{{{ this }}}} ({this})",
        )


class SeveralStatements(TaskSyntax):
    """More than one query or predicate in `from transform` or `from retain`."""

    error_code = "MVS-507"

    def __init__(self, place: Place, form: str):
        super().__init__(
            place, f"`{form}` takes one, without a `;`. For several statements: on input ... as ( ... )"
        )


class Fixpoint(TaskSyntax):
    """Statements that would run until nothing changes."""

    error_code = "MVS-508"

    def __init__(self, place: Place, actual: str):
        super().__init__(
            place,
            f"statements iterated to a fixpoint are not supported: got {actual}. Every statement runs once for each time",
        )


class StatementSyntax(TaskSyntax):
    """A statement that cannot be read."""

    error_code = "MVS-509"


class DeletesOfAnother(TaskSyntax):
    """`mv_deletes` of a relation that is not the input."""

    error_code = "MVS-510"

    def __init__(self, place: Place, input: str):
        super().__init__(
            place, f"mv_deletes are the rows that the input lost; its argument must be the input, {input}"
        )


class ContentsOfAnother(TaskSyntax):
    """`mv_contents` of a relation that is not the input."""

    error_code = "MVS-520"

    def __init__(self, place: Place, input: str):
        super().__init__(
            place,
            f"mv_contents are all rows of the input; its argument must be the input, {input}. Any other relation is read in full by its name alone",
        )


class NoOutputColumns(TaskError):
    """The output's columns are not defined."""

    error_code = "MVS-511"

    def __init__(self, model: str, likely: Sequence[tuple[str, str]] = ()):
        """``likely`` are names and types that fit the task."""
        pairs = ", ".join(f"{name!r}: {kind!r}" for name, kind in likely)
        lines = (
            f". For example, at the top of the model, where a type may be another:\n"
            f"  {{{{ config(materialized='continual_task', column_types={{{pairs}}}) }}}}"
        )
        super().__init__(
            f"{model}: no INSERT to take the output's columns from; define them by column_types or an enforced contract{lines if likely else ''}"
        )


class StatementColumns(TaskError):
    """Root of statements that do not fit the output's columns."""

    def __init__(self, statement: int, message: str):
        super().__init__(f"statement {statement}: {message}")
        self.statement = statement


class TypeMismatch(StatementColumns):
    """A value that the engine would not store in the column."""

    error_code = "MVS-512"

    def __init__(self, statement: int, column: str, expected: str, actual: str):
        super().__init__(
            statement, f'column "{column}" is of type {expected} but expression is of type {actual}'
        )


class TooManyExpressions(StatementColumns):
    """More values than columns."""

    error_code = "MVS-513"

    def __init__(self, statement: int):
        super().__init__(statement, "INSERT has more expressions than target columns")


class TooFewExpressions(StatementColumns):
    """Fewer values than columns."""

    error_code = "MVS-514"

    def __init__(self, statement: int):
        super().__init__(statement, "INSERT has fewer expressions than target columns")


class UnknownTargetColumn(StatementColumns):
    """A column that the output does not have."""

    error_code = "MVS-515"

    def __init__(self, statement: int, column: str, allowed: Sequence[str]):
        super().__init__(
            statement,
            f'column "{column}" is not a column of the output; expected one of: {", ".join(allowed)}',
        )


class RepeatedColumn(StatementColumns):
    """A column that is assigned twice."""

    error_code = "MVS-516"

    def __init__(self, statement: int, column: str):
        super().__init__(statement, f'column "{column}" is given more than once')


class StatementFailed(TaskError):
    """A statement failed in the engine. Earlier commits stay; the next run continues after them.
    ``more`` are further lines of the message.
    """

    error_code = "MVS-517"

    def __init__(self, model: str, statement: str, error: EngineError, more: str = ""):
        super().__init__(f"{model}: statement {statement}: {error.message}{more}")
        self.model = model
        self.statement = statement  # its number, or those of all that ran together
        self.error = error

    def at(self, input: str, time: int, *, merges: bool, stays: bool) -> StatementFailed:
        """The same with the ``time`` (ms) of the change of the ``input``, and how to go on if the
        data caused it. ``merges``: the failed statements have a MERGE. ``stays``: the change at
        that time is the same for every later run.
        """
        more = f"\nIt failed for the change of {input} at {iso(time)} ({time})"
        if not self.error.caused_by_data:
            return StatementFailed(
                self.model, self.statement, self.error, f"{more}; the next run begins at that time"
            )
        name = self.model.rsplit(".", 1)[-1]
        pending = " Every later run reads the same change, also once the input is corrected." if stays else ""
        one_row = ", for a MERGE one row for each key in USING (`select key, max(val) as val from ... group by key`)"
        return StatementFailed(
            self.model,
            self.statement,
            self.error,
            f"{more}.{pending} The task goes on with statements that can take this change, since changed statements apply to it{one_row if merges else ''}; "
            "with `on_error: record`, which records the error in its output at that time; or after a reset: --full-refresh "
            f"--vars '{{mvsink_reset: [{name}]}}'",
        )


class InputNotFollowed(TaskError):
    """The output has contents up to ``upper`` (ms) that do not come from this ``input``, whose
    changes since then are not known. ``task`` says whether a task wrote them, of another input, or
    another kind of model.
    """

    error_code = "MVS-521"

    def __init__(self, model: str, input: str, upper: int, *, task: bool):
        at, name = f"{iso(upper)} ({upper})", model.rsplit(".", 1)[-1]
        if task:
            was = f"its input was edited: it has read another one up to {at}"
            back, kept = "name the old input again", "what the task wrote"
        else:
            was = f"it became a task: its contents are those of the model that it was before, up to {at}"
            back, kept = "make it what it was", "these contents"
        super().__init__(
            f"{model}: {was}, and the changes of {input} since then are not known. To begin again with the whole of {input}, without "
            f"{kept}: --full-refresh --vars '{{mvsink_reset: [{name}]}}'. To keep {kept}: {back}, and give the new task a name of its own"
        )


class ReferenceFails(TaskError):
    """A reference holds a recorded error at the time as of which the statements read it.

    ``broken`` says so, as a clause. ``healed`` means that it has no error any more. ``late`` means
    that it was read at its newest time, which is before the pending one.
    """

    error_code = "MVS-518"

    def __init__(self, model: str, broken: str, *, healed: bool, late: bool):
        name = model.rsplit(".", 1)[-1]
        since = "It has healed since" if healed else "It holds it at its newest time, too"
        again = "once it has healed, the next run goes on" if late else "every run reads it as of that time"
        super().__init__(
            f"{model}: {broken}\n{since}; {again}. The task goes on with `on_error: record`, which records the error in its output; with "
            f"--vars '{{mvsink_skip_errors: [{name}]}}', which leaves out the effects of this time; or after a reset: --full-refresh "
            f"--vars '{{mvsink_reset: [{name}]}}'"
        )


class ColumnsOfOutputChanged(TaskError):
    """The statements' columns are not the output's, and a task's output cannot be recomputed."""

    error_code = "MVS-519"

    def __init__(self, model: str, changes: Sequence[str]):
        super().__init__(
            f"{model}: the output's columns differ from those that the task has written: {'; '.join(changes)}. Restore the old columns, or reset "
            f"the task: --full-refresh --vars '{{mvsink_reset: [{model.rsplit('.', 1)[-1]}]}}'"
        )
