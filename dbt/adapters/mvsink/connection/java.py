"""What the embedded Spark needs on this machine, PySpark and Java, asked before Spark is: its own
answers take a page.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from dbt_common.exceptions import DbtRuntimeError

LEAST = 17
LEAST_PYSPARK = (4, 0)
INSTALL = f"install Java {LEAST} or newer (for example `apt-get install openjdk-{LEAST}-jre-headless`) and set JAVA_HOME if it is not on PATH"
INSTALL_PYSPARK = "pip install 'dbt-mvsink[session]'"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def check_java() -> int:
    """Java's major version; one clear sentence as `DbtRuntimeError` if it is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.path.exists(java):
        where = f"JAVA_HOME={home} has no bin/java" if home else "no `java` on PATH"
        raise DbtRuntimeError(f"Spark needs Java, and there is none ({where}): {INSTALL}")
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise DbtRuntimeError(f"{java} does not run ({error.strerror}): {INSTALL}") from error
    match = _VERSION.search(told.stderr + told.stdout)
    if match is None:
        raise DbtRuntimeError(f"{java} does not tell its version ({told.stderr.strip()[:200]}): {INSTALL}")
    version = int(match[1])
    if version < LEAST:
        raise DbtRuntimeError(f"Spark needs Java {LEAST} or newer, {java} is Java {version}: {INSTALL}")
    return version


def check_pyspark() -> str:
    """PySpark's version; one clear sentence as `DbtRuntimeError` if it is missing or too old."""
    try:
        import pyspark
    except ImportError as error:
        raise DbtRuntimeError(
            f"method `session` needs PySpark, and it cannot be imported ({error}): {INSTALL_PYSPARK}"
        ) from error
    version = tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2])
    if version < LEAST_PYSPARK:
        least = ".".join(map(str, LEAST_PYSPARK))
        raise DbtRuntimeError(
            f"dbt-mvsink needs PySpark {least} or newer, found {pyspark.__version__}: {INSTALL_PYSPARK}"
        )
    return str(pyspark.__version__)
