"""Java as tests want it: they run thousands of small statements once each, which are not worth compiling well, on two cores."""

from __future__ import annotations

import os

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -XX:-UsePerfData"


def install() -> None:
    """For every JVM that this process and its children start from here on."""
    os.environ.setdefault("JDK_JAVA_OPTIONS", OPTIONS)
