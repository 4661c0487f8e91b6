"""The directory `.mvsink` beside the project, where the embedded Spark keeps its files."""

from __future__ import annotations

import os
from pathlib import Path

LOG_FILE = "spark.log"
LOG4J = """status = off
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


def prepare(home: Path) -> None:
    """Create the directory, ignored by git: shards, the metastore and logs are not source code."""
    home.mkdir(parents=True, exist_ok=True)
    ignored = home / ".gitignore"
    if not ignored.exists():
        ignored.write_text("# made by dbt-mvsink\n*\n")


def configure_logging(home: Path) -> None:
    """Write Spark's logging configuration: to `LOG_FILE`, by default errors only."""
    level = os.environ.get("MVSINK_SPARK_LOG_LEVEL", "error").lower()
    (home / "log4j2.properties").write_text(LOG4J.format(file=home / LOG_FILE, level=level))
