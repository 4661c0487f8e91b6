"""Warnings as dbt's events (`AdapterEventWarning`): `--warn-error` and its options apply.

With either of these a warning is an exception. So each is raised where nothing is half done:
warnings about the model before anything is written, warnings about a run's result once the run is
complete (`warn_of_all`).
"""

from __future__ import annotations

from collections.abc import Iterable

from dbt.adapters.events.types import AdapterEventWarning
from dbt_common.events.contextvars import get_node_info
from dbt_common.events.event_manager_client import get_event_manager
from dbt_common.events.functions import warn_or_error
from dbt_common.exceptions import DbtRuntimeError, EventCompilationError

from dbt.adapters.mvsink.error_codes import Coded
from dbt.adapters.mvsink.masking import masked


class WarningsAsErrors(Coded, DbtRuntimeError):
    """Several warnings, where warnings are errors."""

    error_code = "MVS-126"

    CODE = 10_101
    MESSAGE = "dbt-mvsink warnings as errors"


def warn(message: str) -> None:
    """Fire a warning; raises `EventCompilationError` where warnings are errors."""
    warn_or_error(_event(message))


def warn_of_all(messages: Iterable[str]) -> None:
    """Warn with each message in turn; where warnings are errors, raise one error with all of
    them.
    """
    errors = []
    for message in messages:
        try:
            warn(message)
        except EventCompilationError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise WarningsAsErrors("\n".join(str(error.msg) for error in errors))


def warnings_are_errors() -> bool:
    """Whether `warn` raises."""
    manager = get_event_manager()
    return bool(manager.warn_error or manager.warn_error_options.errors(_event("")))


def _event(message: str) -> AdapterEventWarning:
    return AdapterEventWarning(name="mvsink", base_msg=masked(message), args=[], node_info=get_node_info())
