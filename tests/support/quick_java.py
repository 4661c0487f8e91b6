"""Java as tests want it: they run thousands of small statements once each, which are not worth
compiling well, on two cores.

A JVM with Spark spends half of its first ten seconds reading and verifying classes. `make test` has
them archived once (class data sharing): python -m tests.support.quick_java. Without the archive
everything works, and takes longer.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

# `-Xshare`, here Java's default: what tests start leaves the adapter's own archives alone.
OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -XX:-UsePerfData -Xshare:auto"
)
ARCHIVE = Path(sys.prefix) / "java-classes.jsa"  # beside the PySpark whose classes they are


def install() -> None:
    """For every JVM that this process and its children start from here on."""
    # What Java says of an archive that does not fit (another Java, another class path) would stand
    # in dbt's output.
    shared = (
        f" -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off -XX:SharedArchiveFile={ARCHIVE}"
        if ARCHIVE.exists()
        else ""
    )
    os.environ.setdefault("JDK_JAVA_OPTIONS", OPTIONS + shared)


def make_archive() -> None:
    """The classes that a `dbt run` of a small project loads."""
    from tests.support.projects import Project

    made = ARCHIVE.with_suffix(f".{os.getpid()}")
    os.environ["JDK_JAVA_OPTIONS"] = OPTIONS
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={made}"
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        project = Project(root / "project", root / "shards", root / "source")
        project.set_source([(1, "a")])
        code, output = project.run()
    if code:
        raise SystemExit(f"a run to archive the classes of failed: {output}")
    if made.exists():
        made.replace(ARCHIVE)
    else:  # a run that ends waits 20 seconds for Java, which on a busy machine takes longer to write it
        print("no archive of Java's classes was made: tests start Java without one", file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:] == ["options"]:  # for a Makefile
        install()
        print(os.environ["JDK_JAVA_OPTIONS"])
    else:
        make_archive()
