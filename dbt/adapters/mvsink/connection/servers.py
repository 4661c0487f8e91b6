"""What connections to servers have in common: an answer in time, from a Spark that is new
enough.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from contextvars import copy_context
from typing import TypeVar

from dbt.adapters.mvsink.connection.errors import ServerTooOld
from dbt.adapters.mvsink.credentials import MIN_PYSPARK
from dbt.adapters.mvsink.masking import masked

_VERSION = re.compile(r"(\d+)\.(\d+)\b")
Answer = TypeVar("Answer")


def in_time(opens: Callable[[], Answer], seconds: float) -> Answer:
    """What ``opens`` returns or raises. `TimeoutError` after ``seconds``: Thrift's client waits
    for ever for the answer of a server of another kind.
    """
    answer: Future[Answer] = Future()
    context = copy_context()

    def run() -> None:
        try:
            answer.set_result(context.run(opens))
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name="dbt-mvsink opens a connection", daemon=True).start()
    try:
        return answer.result(seconds)
    except NotInTime:
        if answer.done():  # a time-out of its own
            raise
        raise TimeoutError(f"no answer in {seconds:.0f} s") from None


def require_spark_4(server: str, version: str) -> None:
    """`FailedToConnectError` if the server of this name has an older version. Another kind of text
    is left alone.
    """
    number = _VERSION.match(version)
    if number and (int(number[1]), int(number[2])) < MIN_PYSPARK:
        needed = ".".join(map(str, MIN_PYSPARK))
        raise ServerTooOld(
            f"{server} runs Spark {masked(number.string.split()[0])}, and dbt-mvsink needs Spark {needed} or newer: "
            "name a server of Spark 4 in the profile"
        )
