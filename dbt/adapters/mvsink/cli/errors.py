"""What a command of `mvsink` ends with: one class for each thing that a user does about it.

`Error MVS-nnn: ...` has the code of the class, or of the error of a lower layer that became one.
"""

from __future__ import annotations

from typing import IO, Any

import click

from dbt.adapters.mvsink.error_codes import INTERNAL, code_of, internal
from dbt.adapters.mvsink.masking import masked


class CodedError(click.ClickException):
    """An error that is shown with its code. ``message`` may be dbt's, which has one already."""

    error_code = ""

    def __init__(self, message: str, code: str = ""):
        super().__init__(masked(message))
        if code:
            self.error_code = code

    def show(self, file: IO[Any] | None = None) -> None:
        """Write it as click does, with the code."""
        context: Any = getattr(self, "ctx", None)
        if context is not None:
            click.echo(
                f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n", file=file, err=True
            )
        code = "" if "MVS-" in self.message else f" {self.error_code}"
        click.echo(f"Error{code}: {self.format_message()}", file=file, err=True)


class CommandFailed(CodedError):
    """An error that has no code of its own, such as one of a library."""

    error_code = "MVS-821"


class Defect(CodedError):
    """A defect of the package: an exception that nothing in it expects."""

    def __init__(self, command: str, error: BaseException):
        super().__init__(internal(f"running `{command}`", error, "the traceback above"), INTERNAL)


class UsageRefused(CodedError, click.UsageError):
    """Root of wrong usage; exit code 2."""

    exit_code = 2

    def __init__(self, message: str, code: str = "", ctx: click.Context | None = None):
        click.UsageError.__init__(self, masked(message), ctx)
        if code:
            self.error_code = code


class WrongUsage(UsageRefused):
    """Options or arguments that do not fit, or have a value that is not allowed."""

    error_code = "MVS-822"


class InvalidValue(CodedError, click.BadParameter):
    """An option's value is not allowed; click's message names the option."""

    error_code = "MVS-838"


class NoSuchModel(UsageRefused):
    """No model, or no shard of one, has this name."""

    error_code = "MVS-823"


class SeveralModels(UsageRefused):
    """Several models or shards have this name."""

    error_code = "MVS-824"


class ProfileRefused(UsageRefused):
    """The profile or the project's file cannot be used; dbt's message says why."""

    error_code = "MVS-825"


class ShardUnreadable(CodedError):
    """The model's shard could not be read."""

    error_code = "MVS-826"


class WasDropped(CodedError):
    """The model was dropped."""

    error_code = "MVS-827"


class NotForTasks(CodedError):
    """A task's times are those of its input, so this command does not change them."""

    error_code = "MVS-828"


class CannotUndo(CodedError):
    """The changes of the runs are no longer known."""

    error_code = "MVS-829"


class CannotRename(CodedError):
    """The shard cannot become that model's."""

    error_code = "MVS-830"


class ImportRefused(CodedError):
    """There is no table to import, or the model does not take one over."""

    error_code = "MVS-831"


class FilesStay(CodedError):
    """`mvsink drop` may not delete the files yet."""

    error_code = "MVS-832"


class StreamEnded(CodedError):
    """`mvsink subscribe` cannot continue where its position is."""

    error_code = "MVS-833"


class SessionInUse(CodedError):
    """Commands use the warm session that was to be stopped."""

    error_code = "MVS-834"


class SchemasCollide(UsageRefused):
    """`mvsink plan --against` would run in the schemas of the target itself."""

    error_code = "MVS-835"


class NothingToPurge(CodedError):
    """The model has no contents yet."""

    error_code = "MVS-839"


def text_of(error: BaseException) -> str:
    """The message of an error, which is never empty."""
    return str(getattr(error, "msg", None) or error).strip() or type(error).__name__


def failed(error: BaseException) -> CodedError:
    """The error of a lower layer as the command's, with its code."""
    return CommandFailed(text_of(error), code_of(error))


def misused(error: BaseException) -> CodedError:
    """The same for what the user wrote wrongly."""
    return WrongUsage(text_of(error), code_of(error))
