"""The session that a query runs in: what decides results besides the query and its inputs."""

from __future__ import annotations

from dbt.adapters.mvsink.engine import Engine

# from a relation: then the optimizer computes it, and no job runs
IDENTITY = "select version(), current_timezone(), current_catalog(), current_schema() from values (1)"


def session_settings(engine: Engine) -> dict[str, str]:
    """The settings that are not Spark's defaults; secrets are redacted."""
    return {str(row[0]): str(row[1]) for row in engine.facts("set", "settings")}


def setting(engine: Engine, key: str) -> str:
    """The value of a setting, the default if nothing else is set."""
    return str(engine.facts(f"set {key}", "settings")[0][1])


def session_identity(engine: Engine) -> tuple[str, str, str, str]:
    """Spark's version, the time zone, the current catalog and schema. Raises `EngineError`."""
    version, zone, catalog, schema = map(str, engine.facts(IDENTITY, "settings")[0])
    return version, zone, catalog, schema
