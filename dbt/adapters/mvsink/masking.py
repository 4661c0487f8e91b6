"""Masks what must never be printed: credentials in URIs, secrets in `storage_options` and in
Spark's settings.

`masked` is for every text that is shown: messages, warnings, the command's output. `keep_secret`
makes dbt apply it to each line that it logs: SQL, tracebacks, messages of libraries.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

MASK = "***"
EVENTS = "dbt_common.events.event_manager_client"
SHORTEST_SECRET = 4  # characters; anything shorter would be replaced within words
_CREDENTIALS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/{1,3})([^\s'\"`@/:]*:[^\s'\"`@]*)@")
# a parameter of a URI, also of JDBC's: what follows `?`, `&` or `;` and names a secret. JSON and
# HTML escape a `&`
_PARAMETER = re.compile(
    r"((?:[?&;]|u0026|amp;|%26|%3F|%3B)[\w.-]*(?:password|passwd|pwd|secret|token|credential|signature|sig|access_?key|api_?key|account_?key)"
    r"(?:=|%3D))([^\s&;'\"`<>\\)\]}]+)",
    re.IGNORECASE,
)
_ORACLE = re.compile(r"(jdbc:oracle:\w+:)([^\s'\"`@/]*/[^\s'\"`@]*)@", re.IGNORECASE)
_secrets: dict[str, None] = {}  # of every profile that this process has used, in every spelling
_pattern: re.Pattern[str] | None = None  # of all of them, the longest first
_SECRET_KEY = re.compile(r"key|secret|token|password|passwd|credential|sas|signature", re.IGNORECASE)
# Spark's own `spark.redaction.regex`, and what stores and catalogs call a key or a credential. The
# class that provides credentials, and the file they are in, are no secrets.
_SECRET_SETTING = re.compile(
    r"secret|password|passwd|token|[.]sas[.]|credentials?(?![.-]?(s|provider|file|path))"
    r"|(access|account|private|encryption|api|provided|signing|master)[._-]?key\b|key[._-]list|keyfile",
    re.IGNORECASE,
)
_NO_SECRET = re.compile(r"true|false|[\d.]+", re.IGNORECASE)


def masked(text: str) -> str:
    """``text`` with all credentials in URIs and all texts known to `keep_secret` replaced, whole
    or as JSON or a URL spells them.

    >>> masked("cannot list s3://key:sec/ret@bucket/shards: denied")
    'cannot list s3://***@bucket/shards: denied'
    >>> masked("https://a/c?sv=1&sig=aB%2B&x=1, jdbc:sqlserver://h;user=me;password=pw;x=1")
    'https://a/c?sv=1&sig=***&x=1, jdbc:sqlserver://h;user=me;password=***;x=1'
    >>> masked("abfss://container@account.dfs.core.windows.net/x, http://localhost:9000/y")
    'abfss://container@account.dfs.core.windows.net/x, http://localhost:9000/y'
    """
    if _pattern is not None:
        text = _pattern.sub(MASK, text)
    text = _CREDENTIALS.sub(rf"\1{MASK}@", text)
    return _PARAMETER.sub(rf"\1{MASK}", _ORACLE.sub(rf"\1{MASK}@", text))


def without_credentials(uri: str) -> str:
    """``uri`` without user and password: what others may read names places like this.

    >>> without_credentials("s3://key:sec/ret@bucket/shards"), without_credentials("/data/s")
    ('s3://bucket/shards', '/data/s')
    """
    return _CREDENTIALS.sub(r"\1", uri)


def spellings(secret: str) -> set[str]:
    """How texts show ``secret``: as it is, in JSON and Python, in a URL, and both at once."""
    once = {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
    }
    return once | {json.dumps(each)[1:-1] for each in once} | {quote(each, safe="") for each in once}


def secrets_of(uri: str | None, options: Mapping[str, str] | None) -> list[str]:
    """The user and password in ``uri``, and the values of ``options`` whose keys name a secret."""
    secrets = [
        part for match in _CREDENTIALS.finditer(uri or "") for part in (match[2], match[2].partition(":")[2])
    ]
    secrets += [match[2] for match in _PARAMETER.finditer(uri or "")]
    secrets += [
        value for key, value in (options or {}).items() if isinstance(value, str) and _SECRET_KEY.search(key)
    ]
    return sorted({secret for secret in secrets if len(secret) >= SHORTEST_SECRET}, key=len, reverse=True)


def catalog_secrets(properties: Mapping[str, str] | None) -> list[str]:
    """What is secret of an Iceberg catalog's properties.

    >>> catalog_secrets({"uri": "postgresql://me:hush@db/c", "token": "abcd", "header.X": "efgh"})
    ['me:hush', 'hush', 'abcd', 'efgh']
    """
    secrets: dict[str, None] = {}
    for name, value in (properties or {}).items():
        if isinstance(value, str):
            secrets |= dict.fromkeys(secrets_of(value, {name: value}))
            if name.startswith("header.") and len(value) >= SHORTEST_SECRET:
                secrets[value] = None
    return list(secrets)


def is_secret(setting: str) -> bool:
    """Whether the value of Spark's ``setting`` must not be shown.

    >>> is_secret("spark.hadoop.fs.s3a.secret.key"), is_secret("spark.sql.mapKeyDedupPolicy")
    (True, False)
    """
    return bool(_SECRET_SETTING.search(setting))


def secrets_in(settings: Mapping[str, str] | None) -> list[str]:
    """The secret values of Spark's ``settings``, and the passwords in their URLs."""
    secrets: set[str] = set()
    for setting, value in (settings or {}).items():
        if not isinstance(value, str):
            continue
        secrets |= {each[2] for pattern in (_PARAMETER, _ORACLE) for each in pattern.finditer(value)}
        secrets |= set(secrets_of(value, None))
        if is_secret(setting) and not _NO_SECRET.fullmatch(value):
            secrets.add(value)
    return sorted({each for each in secrets if len(each) >= SHORTEST_SECRET}, key=len, reverse=True)


def keep_secret(secrets: Iterable[str]) -> None:
    """From now on `masked` replaces ``secrets`` too, and dbt applies it to every line it logs."""
    global _pattern
    _secrets.update(dict.fromkeys(spelled for secret in secrets for spelled in spellings(secret)))
    if _secrets:  # of two secrets, the longer one first: nothing of it is left beside the shorter one
        longest_first = sorted(_secrets, key=len, reverse=True)
        _pattern = re.compile("|".join(map(_literal, longest_first)))
    events = sys.modules.get(EVENTS)  # nothing is logged by dbt before it is imported
    for logger in getattr(events.get_event_manager(), "loggers", ()) if events else ():
        if not isinstance(logger.scrubber, _Scrubber):
            logger.scrubber = _Scrubber(logger.scrubber)


def _literal(text: str) -> str:
    """A pattern for ``text``, with the codes of a URL in either case."""
    return re.sub(r"%[0-9A-Fa-f]{2}", lambda code: f"(?i:{code[0]})", re.escape(text))


@dataclass(frozen=True)
class _Scrubber:
    """Applies `masked` after dbt's own scrubber, which knows the environment's secrets."""

    before: Callable[[str], str] | None

    def __call__(self, line: str) -> str:
        return masked(line if self.before is None else self.before(line))
