"""The session that a query runs in: what affects results besides the query and its inputs."""

from __future__ import annotations

from dataclasses import dataclass

from dbt.adapters.mvsink.engine import Engine

# One statement; from a relation: then the optimizer computes it, and no job runs.
# A session that takes quoted names as patterns returns both columns for `a.`.
SESSION = (
    "select version(), current_timezone(), current_catalog(), current_schema(), typeof(1 + '1'), `a.` "
    "from values (1, 2) t(`a.`, `ab`)"
)


@dataclass(frozen=True)
class Session:
    """What the session says about itself. ``sum_type`` is the type of `1 + '1'`, which shows ANSI
    mode (Spark may redact the setting). ``names_are_patterns`` means that the quoted name of one
    column stands for two.
    """

    version: str
    zone: str
    catalog: str
    schema: str
    sum_type: str
    names_are_patterns: bool

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Spark's version, the time zone, the current catalog and schema."""
        return self.version, self.zone, self.catalog, self.schema


def session_of(engine: Engine) -> Session:
    """The engine's session. Raises `EngineError`."""
    [(version, zone, catalog, schema, kind, *columns)] = engine.facts(SESSION, "settings")
    return Session(str(version), str(zone), str(catalog), str(schema), str(kind), len(columns) > 1)


def session_settings(engine: Engine) -> dict[str, str]:
    """The settings that differ from Spark's defaults; secrets are redacted."""
    return {str(row[0]): str(row[1]) for row in engine.facts("set", "settings")}


def is_local_session(engine: Engine) -> bool:
    """Whether Spark's tasks run on its driver's machine."""
    return session_settings(engine).get("spark.master", "").startswith("local")


def setting(engine: Engine, key: str) -> str:
    """The value of a setting, or its default."""
    return str(engine.facts(f"set {key}", "settings")[0][1])
