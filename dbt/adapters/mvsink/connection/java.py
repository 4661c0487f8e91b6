"""The Java that the embedded Spark needs, checked before Spark starts with a page of errors."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from dbt_common.exceptions import DbtRuntimeError

MIN_JAVA = 17
INSTALL = f"install Java {MIN_JAVA} or newer (for example `apt-get install openjdk-{MIN_JAVA}-jre-headless`) and set JAVA_HOME if it is not on PATH"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True)
class Java:
    """``path``: the program. ``version``: the major one. ``text``: what `java -version` prints."""

    path: str
    version: int
    text: str


def check_java() -> Java:
    """Spark's Java; one clear sentence as `DbtRuntimeError` if it is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.path.exists(java):
        where = f"JAVA_HOME={home} has no bin/java" if home else "no `java` on PATH"
        raise DbtRuntimeError(f"Spark needs Java, and none was found ({where}): {INSTALL}")
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise DbtRuntimeError(f"{java} does not run ({error.strerror}): {INSTALL}") from error
    text = result.stderr + result.stdout
    match = _VERSION.search(text)
    if match is None:
        raise DbtRuntimeError(
            f"{java} does not report its version ({result.stderr.strip()[:200]}): {INSTALL}"
        )
    version = int(match[1])
    if version < MIN_JAVA:
        raise DbtRuntimeError(f"Spark needs Java {MIN_JAVA} or newer, {java} is Java {version}: {INSTALL}")
    return Java(java, version, text)
