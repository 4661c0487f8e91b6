"""Masks what must never be printed: credentials in URIs, secrets in `storage_options` and in
Spark's settings.

`masked` is for every text that is shown: messages, warnings, the command's output. `keep_secret`
makes dbt apply it to each line that it logs: SQL, tracebacks, messages of libraries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from dbt_common.events.event_manager_client import get_event_manager

MASK = "***"
SHORTEST_SECRET = 4  # characters; anything shorter would be replaced within words
_CREDENTIALS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/{1,3})([^\s'\"`@/:]*:[^\s'\"`@]*)@")
_secrets: dict[str, None] = {}  # of every profile that this process has used
_SECRET_KEY = re.compile(r"key|secret|token|password|passwd|credential|sas|signature", re.IGNORECASE)
# Spark's own `spark.redaction.regex`, and what the stores of Azure and Google call a key
_SECRET_SETTING = re.compile(
    r"secret|password|passwd|token|access[.]?key|account[.]key|private[.]key|[.]sas[.]", re.IGNORECASE
)
_NO_SECRET = re.compile(r"true|false|[\d.]+", re.IGNORECASE)


def masked(text: str) -> str:
    """``text`` with all credentials in URIs and all texts known to `keep_secret` replaced.

    >>> masked("cannot list s3://key:sec/ret@bucket/shards: denied")
    'cannot list s3://***@bucket/shards: denied'
    >>> masked("abfss://container@account.dfs.core.windows.net/x, http://localhost:9000/y")
    'abfss://container@account.dfs.core.windows.net/x, http://localhost:9000/y'
    """
    for secret in _secrets:
        text = text.replace(secret, MASK)
    return _CREDENTIALS.sub(rf"\1{MASK}@", text)


def secrets_of(uri: str | None, options: Mapping[str, str] | None) -> list[str]:
    """User and password of ``uri``, and the values of ``options`` whose keys name a secret."""
    secrets = [
        part for match in _CREDENTIALS.finditer(uri or "") for part in (match[2], match[2].partition(":")[2])
    ]
    secrets += [
        value for key, value in (options or {}).items() if isinstance(value, str) and _SECRET_KEY.search(key)
    ]
    return sorted({secret for secret in secrets if len(secret) >= SHORTEST_SECRET}, key=len, reverse=True)


def is_secret(setting: str) -> bool:
    """Whether the value of Spark's ``setting`` must not be shown.

    >>> is_secret("spark.hadoop.fs.s3a.secret.key"), is_secret("spark.sql.mapKeyDedupPolicy")
    (True, False)
    """
    return bool(_SECRET_SETTING.search(setting))


def secrets_in(settings: Mapping[str, str] | None) -> list[str]:
    """The secret values of Spark's ``settings``."""
    secrets = {
        value
        for setting, value in (settings or {}).items()
        if isinstance(value, str) and is_secret(setting) and not _NO_SECRET.fullmatch(value)
    }
    return sorted({each for each in secrets if len(each) >= SHORTEST_SECRET}, key=len, reverse=True)


def keep_secret(secrets: Iterable[str]) -> None:
    """From now on `masked` replaces ``secrets`` too, and dbt applies it to every line it logs."""
    _secrets.update(dict.fromkeys(secrets))
    for logger in getattr(get_event_manager(), "loggers", ()):
        if not isinstance(logger.scrubber, _Scrubber):
            logger.scrubber = _Scrubber(logger.scrubber)


@dataclass(frozen=True)
class _Scrubber:
    """`masked` behind dbt's own scrubber, which knows the environment's secrets."""

    before: Callable[[str], str] | None

    def __call__(self, line: str) -> str:
        return masked(line if self.before is None else self.before(line))
