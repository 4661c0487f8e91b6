"""The tests that race, over and over: `python -m tests.long.races --count 100`.

A case is one repetition of all of them, with a seed of its own. CI runs three seeds of the tests
whose threads meet at random, and once those that stop one process at every step of another. It can
be stopped at any time, and the same command goes on (`kept`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from tests.long.kept import arguments

ROOT = Path(__file__).parents[2]
RACES = (
    "tests/unit/shard/test_races.py",
    "tests/unit/shard/test_staged_ownership.py",
    "tests/unit/shard/test_leases.py",
    "tests/unit/shard/test_rules_handles.py::test_opening_at_once_gives_the_same_shard",
    "tests/unit/shard/test_after_commit.py::test_row_e_an_outage_from_any_call_after_the_commit",
)
DEFECTS = ("failed", "error")


def repeated(seed: int) -> dict[str, str]:
    """The outcome of each test, by its name."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            *RACES,
        ]
        seeds = {"MVSINK_SEEDS": f"{seed} {seed + 1}"}
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **seeds})
        if not report.exists():
            raise SystemExit(done.stdout + done.stderr)
        cases = ElementTree.parse(report).iter("testcase")
        return {f"{case.get('classname')}::{case.get('name')}": _outcome(case) for case in cases}


def _outcome(case: ElementTree.Element) -> str:
    for kind in ("failure", "error"):
        problem = case.find(kind)
        if problem is not None:
            text = (problem.get("message") or "").splitlines()
            return f"{'failed' if kind == 'failure' else kind}: {text[0] if text else ''}"
    return "skipped" if case.find("skipped") is not None else "passed"


def main() -> int:
    kept, _ = arguments("races", 100)
    for number in range(kept.count):
        case = f"repetition {number}"
        if case not in kept:
            outcomes = repeated(1000 * kept.seed + number)
            wrong = {name: each for name, each in outcomes.items() if each.startswith(DEFECTS)}
            kept.add(case, list(outcomes.values()), wrong=wrong)
            print(
                f"{len(kept.cases)} of {kept.count} repetitions, {len(kept.defects(DEFECTS))} with a defect",
                flush=True,
            )
    return kept.conclude(DEFECTS)


if __name__ == "__main__":
    sys.exit(main())
