"""Grants on a published view, which `CREATE OR REPLACE VIEW` loses: `publish` restores them.

Plain Spark has no grants: its parser refuses `SHOW GRANTS` once per process, and no run asks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbt.adapters.mvsink.engine import Engine, EngineError, sql

NOT_OFFERED = ("42601", "0A000")  # a syntax error, a feature that is not supported
OWN = "OWN"  # follows the user who creates the view

_offered = True


@dataclass(frozen=True)
class Grant:
    """``grantee`` may do ``privilege``."""

    privilege: str
    grantee: str


def on_view(engine: Engine, relation: str) -> tuple[Grant, ...]:
    """The grants on the view itself; empty if the engine has no grants."""
    global _offered
    if not _offered:
        return ()
    try:
        rows = engine.query(f"show grants on {relation}", "catalog")
    except EngineError as error:
        if error.sqlstate and error.sqlstate not in NOT_OFFERED:
            raise
        _offered = False
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
