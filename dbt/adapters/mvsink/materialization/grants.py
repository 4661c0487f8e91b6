"""Grants: those that people put on a published view, which `CREATE OR REPLACE VIEW` loses, so that
`publish` restores them, and those of a model's config `grants`, which dbt applies.

Plain Spark has none: its parser refuses `SHOW GRANTS` once per invocation, and nothing asks again.
There a model with `grants` is refused before anything is written, or the profile has them skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from dbt.adapters.mvsink.engine import Engine, EngineError, sql
from dbt.adapters.mvsink.exceptions import GrantsNotOffered
from dbt.adapters.mvsink.profile_keys import SKIP

NOT_OFFERED = ("42601", "0A000")  # a syntax error, a feature that is not supported
OWN = "OWN"  # follows the user who creates the view
SKIPPED = "grants are skipped, because this Spark has none (`unsupported_grants: skip`)"

_refusals: MutableMapping[object, str] = WeakKeyDictionary()  # Spark's words, by adapter, so by invocation


@dataclass(frozen=True)
class Grant:
    """``grantee`` may do ``privilege``."""

    privilege: str
    grantee: str


def on_view(engine: Engine, relation: str) -> tuple[Grant, ...]:
    """The grants on the view itself; empty if the engine has no grants."""
    if _refusals.get(_place(engine)):
        return ()
    try:
        rows = engine.query(f"show grants on {relation}", "catalog")
    except EngineError as error:
        if error.sqlstate and error.sqlstate not in NOT_OFFERED:
            raise
        _refusals[_place(engine)] = error.message
        return ()
    return tuple(
        Grant(str(privilege), str(grantee))
        for grantee, privilege, kind, *_ in rows
        if str(kind).upper() in ("TABLE", "VIEW") and str(privilege).upper() != OWN
    )


def restore(engine: Engine, relation: str, grants: Sequence[Grant]) -> None:
    """Grant them again."""
    for grant in grants:
        engine.execute(f"grant {grant.privilege} on {relation} to {sql.identifier(grant.grantee)}", "grant")


def applicable(
    engine: Engine, model: str, relation: str, wanted: Mapping[str, Any] | None, unsupported: str
) -> Mapping[str, Any]:
    """Those of the config ``wanted`` that can be applied: all, or none where Spark has no grants
    and ``unsupported`` is `SKIP`. Otherwise raises `GrantsNotOffered` there. The relation need not
    exist.
    """
    refusal = _refusal(engine, relation) if wanted else ""
    if refusal and unsupported != SKIP:
        raise GrantsNotOffered(model, wanted, refusal)
    return {} if refusal or not wanted else wanted


def _refusal(engine: Engine, relation: str) -> str:
    """Spark's words where it has no grants; else empty."""
    place = _place(engine)
    if place not in _refusals:
        try:
            engine.query(f"show grants on {relation}", "catalog")
            _refusals[place] = ""
        except EngineError as error:  # any other state is about the relation
            _refusals[place] = error.message if error.sqlstate in NOT_OFFERED else ""
    return _refusals[place]


def _place(engine: Engine) -> object:
    return getattr(engine, "adapter", engine)
