"""An engine's error as one message, without the JVM's stack."""

from __future__ import annotations

from typing import Any

from dbt.adapters.mvsink.masking import masked


def error_text(error: Exception) -> str:
    """The engine's own message, with secrets masked."""
    response = error.args[0] if error.args else None
    status = getattr(response, "status", None)
    text = str(getattr(status, "errorMessage", None) or error)
    java = getattr(error, "java_exception", None)
    if java is not None:  # a Py4J error that PySpark did not translate: its text is a stack
        text = str(_root_cause(java))
    return masked(text.split("\n\tat ", 1)[0].split("\n\nJVM stacktrace:", 1)[0])


def _root_cause(java: Any) -> Any:
    message = java.getMessage()
    while java.getCause() is not None:
        java = java.getCause()
        message = java.getMessage() or message
    return message
