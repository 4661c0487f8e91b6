"""What keeps a command from having a Spark: one class for each thing that a user does about it."""

from __future__ import annotations

from dbt.adapters.exceptions.connection import FailedToConnectError

from dbt.adapters.mvsink.engine.errors import kind_of
from dbt.adapters.mvsink.error_codes import Coded
from dbt.adapters.mvsink.exceptions import MvsinkError, SparkError
from dbt.adapters.mvsink.spark_words import SparkWords


def spark_error(words: SparkWords) -> SparkError:
    """The error of Spark, with the code of its kind."""
    return SparkError(words, kind_of(words.text, words.sqlstate).error_code)


class NoJava(MvsinkError):
    """Spark needs Java, and there is none that it can use."""

    error_code = "MVS-710"


class SparkNotStarted(Coded, FailedToConnectError):
    """The embedded Spark did not start. The message names Spark's log."""

    error_code = "MVS-711"


class SessionEnded(MvsinkError):
    """Spark has ended while the command ran: nothing works after that."""

    error_code = "MVS-712"


class Interrupted(MvsinkError):
    """The user ended the command, or dbt cancelled the statement because another model failed."""

    error_code = "MVS-713"


class NoServer(Coded, FailedToConnectError):
    """No session on the server that the profile names, or it cannot be reached any more."""

    error_code = "MVS-714"


class ServerLost(MvsinkError):
    """The server stopped answering while a statement ran, which may have run or not."""

    error_code = "MVS-720"


class ServerTooOld(Coded, FailedToConnectError):
    """The server runs a Spark that is older than what the adapter needs."""

    error_code = "MVS-715"


class ServerRefusesSetting(Coded, FailedToConnectError):
    """The server does not let a session set what `server_side_parameters` names."""

    error_code = "MVS-716"


class MetastoreInUse(MvsinkError):
    """Another process works on the embedded metastore."""

    error_code = "MVS-717"


class WarmSessionFailed(MvsinkError):
    """A warm session did not start, or cannot be used."""

    error_code = "MVS-718"


class MisusedConnection(MvsinkError):
    """A method of a connection was called in a state in which it has no answer."""

    error_code = "MVS-719"
