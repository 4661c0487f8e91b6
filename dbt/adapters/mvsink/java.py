"""Is there a Java that Spark can run on? Asked before Spark is, whose own answer takes a page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from dbt_common.exceptions import DbtRuntimeError

LEAST = 17
INSTALL = f"install Java {LEAST} or newer (for example `apt-get install openjdk-{LEAST}-jre-headless`) and set JAVA_HOME if it is not on PATH"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def check_java() -> int:
    """Java's major version; one clear sentence as `DbtRuntimeError` if it is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.path.exists(java):
        where = f"JAVA_HOME={home} has no bin/java" if home else "no `java` on PATH"
        raise DbtRuntimeError(f"Spark needs Java, and there is none ({where}): {INSTALL}")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = _VERSION.search(told.stderr + told.stdout)
    if match is None:
        raise DbtRuntimeError(f"{java} does not tell its version ({told.stderr.strip()[:200]}): {INSTALL}")
    version = int(match[1])
    if version < LEAST:
        raise DbtRuntimeError(f"Spark needs Java {LEAST} or newer, {java} is Java {version}: {INSTALL}")
    return version
