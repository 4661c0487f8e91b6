"""Spark's own SQL tests, read from the `tests` jar of spark-sql, which Ivy downloads once.

Nothing of it is copied into the repository. The jar is that of the installed PySpark, or the newest
earlier one of the same minor version if that was not published.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zipfile import ZipFile

import pyspark

IVY = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="mvsink" module="tests"/>
  <dependencies>
    <dependency org="org.apache.spark" name="spark-sql_2.13" rev="[{minor}.0,{version}]" transitive="false">
      <artifact name="spark-sql_2.13" type="jar" ext="jar" m:classifier="tests"/>
    </dependency>
  </dependencies>
</ivy-module>"""
JAR = "[artifact]-[revision](-[classifier]).[ext]"
CACHE = Path.home() / ".cache" / "mvsink" / "spark-tests"
INPUTS = "sql-tests/inputs/"


def jar() -> Path:
    """The jar, downloaded if it is not there."""
    version = pyspark.__version__
    place = CACHE / version
    current = next(place.glob("*.jar"), None)
    if current is None:
        ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as module:
            module.write(IVY.format(minor=".".join(version.split(".")[:2]), version=version))
            module.flush()
            java = ["java", "-cp", str(ivy), "org.apache.ivy.Main", "-ivy", module.name]
            subprocess.run(
                [*java, "-cache", str(CACHE / "ivy"), "-retrieve", f"{place}/{JAR}"],
                check=True,
                stdout=subprocess.DEVNULL,
            )
        current = next(place.glob("*.jar"))
    return current


@dataclass(frozen=True)
class Script:
    """One file. ``settings``: what it sets before its first statement."""

    name: str
    statements: Sequence[str]
    settings: dict[str, str] = field(default_factory=dict)


def scripts() -> Iterator[Script]:
    """The files of `sql-tests/inputs`, in the order of their names."""
    with ZipFile(jar()) as archive:
        names = sorted(
            name for name in archive.namelist() if name.startswith(INPUTS) and name.endswith(".sql")
        )
        texts = {name: archive.read(name).decode() for name in names}
    for name in names:
        imports = re.findall(r"^--IMPORT (.*)$", texts[name], re.MULTILINE)
        imported = [s for each in imports for s in statements(texts.get(INPUTS + each.strip(), ""))]
        yield Script(
            name.removeprefix(INPUTS), [*imported, *statements(texts[name])], settings_of(texts[name])
        )


def queries(folder: str) -> dict[str, str]:
    """The queries of `tpch`, `tpcds` and their like, by name."""
    with ZipFile(jar()) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(rf"{folder}/[^/]*\.sql", name)]
        return {
            Path(name).stem: _bare(archive.read(name).decode()).strip().rstrip(";") for name in sorted(names)
        }


def statements(text: str) -> list[str]:
    """As Spark's own suite splits a file."""
    if "--QUERY-DELIMITER-START" in text:
        return [_bare(part).strip().rstrip(";") for part in _delimited(text) if _bare(part).strip()]
    parts = re.split(r"(?<!\\);", _bare(text))
    return [part.strip() for part in parts if part.strip()]


def _delimited(text: str) -> Iterator[str]:
    inside = False
    for part in re.split(r"^--QUERY-DELIMITER-(START|END).*$", text, flags=re.MULTILINE):
        if part in ("START", "END"):
            inside = part == "START"
        elif inside:
            yield part
        else:
            yield from re.split(r"(?<!\\);", part)


def _bare(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.strip().startswith("--"))


def settings_of(text: str) -> dict[str, str]:
    """Of `--SET a=b,c=d`."""
    pairs = ",".join(re.findall(r"^--SET (.*)$", text, re.MULTILINE)).split(",")
    return {key.strip(): value.strip() for key, _, value in (pair.partition("=") for pair in pairs) if value}
