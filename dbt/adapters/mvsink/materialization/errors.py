"""Translates errors of the layers below dbt into dbt's own, with the model's name in front."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dbt_common.exceptions import DbtBaseException, DbtRuntimeError

from dbt.adapters.mvsink.engine import DataflowError, EngineError
from dbt.adapters.mvsink.error_codes import code_of
from dbt.adapters.mvsink.exceptions import InternalError, MvsinkError, SystemRefused
from dbt.adapters.mvsink.shard import ShardError
from dbt.adapters.mvsink.spark_words import SparkWords

LOWER_ERRORS = (DataflowError, ShardError)


def translate(model: str, error: Exception) -> DbtRuntimeError:
    """``error`` as an error of dbt's, with the name of ``model`` (or of a macro) in front."""
    if isinstance(error, EngineError) and isinstance(error.__cause__, DbtRuntimeError):
        return error.__cause__
    message = str(error) or type(error).__name__
    named = message if message.startswith(f"{model}: ") else f"{model}: {message}"
    translated = MvsinkError(named, code_of(error))
    translated.spark = None if hasattr(error, "place") else _spark_of(error)
    return translated


def _spark_of(error: BaseException | None) -> SparkWords | None:
    """What Spark said, if that is the cause of the error."""
    while error is not None:
        words: SparkWords | None = getattr(error, "spark", None)
        if words is not None:
            return words
        error = getattr(error, "error", None) or error.__cause__
    return None


@contextmanager
def translated(model: str) -> Iterator[None]:
    """Errors of the lower layers leave this block as errors of dbt's, and what nothing expects as
    `InternalError`.
    """
    try:
        yield
    except LOWER_ERRORS as error:
        raise translate(model, error) from error
    except DbtBaseException:
        raise
    except OSError as error:
        raise SystemRefused(model, error) from error
    except Exception as error:
        raise InternalError(f"running {model}", error) from error
