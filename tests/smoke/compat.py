"""`make compat`: the smoke suite with combinations of dbt-core, PySpark and Python, as a table.

Every corner (oldest or newest of each of the three) is tried, and every version at least twice. Of
each minor version the newest release counts. A combination has an environment to itself, in a
directory that is removed before the next one. Pythons are those on PATH and pyenv's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OVERRIDES = ROOT / "tests" / "smoke" / "overrides.txt"
SUITE = ROOT / "tests" / "smoke" / "test_installed.py"
NEEDED = (f"{ROOT}[session]", "pytest>=8", "pytest-timeout>=2.3", "dbt-tests-adapter>=1.19")
DBT, PYSPARK, PYTHON = (
    ("1.10", "1.11", "1.12"),
    ("4.0", "4.1", "4.2", "4.3"),
    ("3.10", "3.11", "3.12", "3.13"),
)
BETWEEN = (
    ("1.11", "4.1", "3.11"),
    ("1.11", "4.2", "3.12"),
    ("1.12", "4.1", "3.12"),
    ("1.10", "4.2", "3.11"),
)
TOO_OLD = ("4.3", "3.10")
LIMIT = 900  # seconds for one step of one combination
# where the reason stands, best first: uv's conclusion, pytest's exception, any program's error
REASONS = [re.compile(each, re.M) for each in (r"cause: (.*)", r"^E  +(.*)", r"\b(?:error|ERROR): (.*)")]


@dataclass(frozen=True)
class Outcome:
    """A row of the table. ``versions``: those of dbt-core, PySpark and Python that were tried."""

    versions: Sequence[str]
    result: str
    passed: bool

    def __str__(self) -> str:
        return f"| {' | '.join(self.versions)} | {self.result} |"


class Failed(Exception):
    """A step failed; the message is the reason, on one line."""


def combinations() -> list[tuple[str, str, str]]:
    """Versions of dbt-core, PySpark and Python: see the module.

    >>> len(combinations()), combinations()[0]
    (12, ('1.10', '4.0', '3.10'))
    """
    corners = product(*((versions[0], versions[-1]) for versions in (DBT, PYSPARK, PYTHON)))
    return [*corners, *BETWEEN]


def reason(output: str) -> str:
    r"""Why a step failed, on one line.

    >>> reason("...\nE   AssertionError: no jar\nE   more")
    'AssertionError: no jar'
    >>> reason("error: No solution\n  cause: Because a|b")
    'Because a\\|b'
    """
    stated = [match[1] for pattern in REASONS if (match := pattern.search(output))]
    text = (stated or output.strip().splitlines()[-1:] or ["no output"])[0]
    return text.strip().replace("|", "\\|")[:160]


def step(*command: str | Path) -> str:
    """What it printed. `Failed` with the reason."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, text=True, timeout=LIMIT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f"not finished after {LIMIT} s") from error
    if done.returncode:
        print(done.stdout, file=sys.stderr, flush=True)
        raise Failed(reason(done.stdout))
    return done.stdout


def installed(uv: str, python: Path, versions: tuple[str, str, str]) -> Sequence[str]:
    """Fill the environment of ``python``; the versions that came."""
    wanted = [f"dbt-core=={versions[0]}.*", f"pyspark=={versions[1]}.*"]
    step(uv, "pip", "install", "--quiet", "--python", python, "--override", OVERRIDES, *NEEDED, *wanted)
    packages = json.loads(step(uv, "pip", "list", "--quiet", "--python", python, "--format", "json"))
    version = {each["name"]: each["version"] for each in packages}
    own = step(python, "-c", "import platform; print(platform.python_version())").strip()
    return (version["dbt-core"], version["pyspark"], own)


def interpreter(version: str) -> str | None:
    """A Python of this minor version: on PATH, where pyenv's may not run, or among pyenv's
    versions.
    """
    name = f"python{version}"
    candidates = [str(Path(place, name)) for place in os.get_exec_path()]
    pyenv = shutil.which("pyenv")
    if pyenv:
        versions = Path(subprocess.check_output([pyenv, "root"], text=True).strip(), "versions")
        candidates += [str(path) for path in sorted(versions.glob(f"{version}.*/bin/{name}"), reverse=True)]
    for candidate in filter(os.path.exists, candidates):
        if subprocess.run([candidate, "--version"], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


def tried(uv: str, versions: tuple[str, str, str], interpreter: str) -> Outcome:
    """One combination in an environment of its own, which is gone afterwards."""
    names: Sequence[str] = versions
    with tempfile.TemporaryDirectory(dir=sys.prefix) as place:  # `make compat` removes what is left
        python = Path(place, "env", "bin", "python")
        try:
            step(uv, "venv", "--quiet", "--python", interpreter, Path(place, "env"))
            names = installed(uv, python, versions)
            started = time.monotonic()
            step(python, "-m", "pytest", SUITE)
            return Outcome(names, f"passes ({time.monotonic() - started:.0f} s)", True)
        except Failed as failed:
            return Outcome(names, f"fails: {failed}", False)


def table(uv: str) -> Iterator[Outcome]:
    """Try them one after the other. A Python that this machine lacks is reported."""
    for versions in combinations():
        program = interpreter(versions[2])
        if versions[1:] == TOO_OLD:
            yield Outcome(versions, "PySpark 4.3 requires Python 3.11", True)
        elif program is None:
            yield Outcome(versions, f"not tried: no Python {versions[2]} on this machine", True)
        else:
            yield tried(uv, versions, program)
            subprocess.run([uv, "cache", "prune", "--quiet"], check=False)  # gigabytes of unpacked builds


def main() -> None:
    """Print the table, each row as soon as it is known. Exits with 1 if a combination failed."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        raise SystemExit("uv is not installed beside this Python; `make compat` does it")
    print(
        f"On {date.today()}:\n\n| dbt-core | PySpark | Python | smoke suite |\n|---|---|---|---|", flush=True
    )
    passed = True
    for outcome in table(uv):
        print(outcome, flush=True)
        passed = passed and outcome.passed
    raise SystemExit(0 if passed else 1)


if __name__ == "__main__":
    main()
