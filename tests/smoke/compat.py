"""The smoke suite on many versions, in one environment after the other: `make compat`.

Prints the README's table. Each version of Python, dbt-core and PySpark is in at least two rows, and
the oldest and the newest of one are with those of the others. Needs `uv` beside this Python, and
the Pythons on the path: a row whose Python is missing says so. Exits with 1 if a suite failed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).parent / "uv"
TOOLS = ("pytest>=8", "pytest-timeout>=2.3", "dbt-tests-adapter>=1.19")
# Python, dbt-core, PySpark. PySpark 4.3 needs Python 3.11.
COMBINATIONS = (
    ("3.10", "1.10", "4.0"),
    ("3.10", "1.12", "4.1"),
    ("3.11", "1.11", "4.1"),
    ("3.11", "1.10", "4.3"),
    ("3.12", "1.11", "4.2"),
    ("3.12", "1.12", "4.2"),
    ("3.13", "1.10", "4.0"),
    ("3.13", "1.12", "4.0"),
    ("3.13", "1.12", "4.3"),
)
VERSIONS = "from importlib.metadata import version as v; print(v('dbt-core'), v('pyspark'))"


def main() -> None:
    """Print the table, row by row."""
    print("| Python | dbt-core | PySpark | smoke suite |\n|---|---|---|---|", flush=True)
    failed = False
    for python, dbt, pyspark in COMBINATIONS:
        with tempfile.TemporaryDirectory(prefix="mvsink-compat-") as place:
            versions, result = outcome(Path(place), python, dbt, pyspark)
        failed = failed or not result.startswith(("passes", "not tried"))
        print(f"| {' | '.join((*versions, result))} |", flush=True)
    sys.exit(failed)


def outcome(place: Path, python: str, dbt: str, pyspark: str) -> tuple[tuple[str, str, str], str]:
    """The versions that were installed, and the suite's result."""
    interpreter = interpreter_of(python)
    if interpreter is None:
        return (python, dbt, pyspark), "not tried: this Python is not on the path"
    for command in installing(place, interpreter, f"dbt-core~={dbt}.0", f"pyspark~={pyspark}.0"):
        done = run(command)
        if done.returncode:
            return (python, dbt, pyspark), f"cannot be installed: {last_line(done.stderr)}"
    own = place / "bin" / "python"
    exact = (python, *run([str(own), "-c", VERSIONS]).stdout.split())
    done = run([str(own), "-m", "pytest", "tests/smoke/test_installed.py", "-p", "no:cacheprovider"])
    result = "fails" if done.returncode else "passes"
    return (exact[0], exact[1], exact[2]), f"{result}: {last_line(done.stdout)}"


def interpreter_of(python: str) -> str | None:
    """The path of this Python; None if there is none. pyenv's own programs may refuse to start."""
    latest = run(["pyenv", "latest", python]).stdout.strip() if shutil.which("pyenv") else ""
    if latest:
        return str(Path(run(["pyenv", "prefix", latest]).stdout.strip()) / "bin" / "python")
    return shutil.which(f"python{python}")


def installing(place: Path, interpreter: str, *versions: str) -> Iterator[list[str]]:
    """The package as users install it, in an environment of its own."""
    yield [str(UV), "venv", "--quiet", "--python", interpreter, str(place)]
    into = ["--python", str(place / "bin" / "python"), "--override", "tests/smoke/overrides.txt"]
    yield [str(UV), "pip", "install", "--quiet", *into, ".[session]", *TOOLS, *versions]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    return subprocess.run(command, cwd=ROOT, env=kept, capture_output=True, text=True)


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing was printed"])[-1].strip("= ")


if __name__ == "__main__":
    main()
