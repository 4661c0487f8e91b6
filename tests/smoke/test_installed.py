"""The main job in one process, on whatever PySpark is installed: `make smoke` runs this on the newest."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dbt.adapters.mvsink
from tests.support.projects import Project

BIN = str(Path(sys.executable).parent)
EDITABLE = "site-packages" not in dbt.adapters.mvsink.__file__
STORY = """
import json, sys
from pathlib import Path
from dbt.cli.main import dbtRunner
from dbt.adapters.mvsink.session.embedded import running
from tests.support.projects import replace_source

def run():
    result = dbtRunner().invoke(["run", "--quiet", "--profiles-dir", ".", "--no-use-colors"])
    if not result.success:
        sys.exit(f"{result.exception} {[r.message for r in result.result or []]}")
    told = result.result.results[0].adapter_response
    rows = sorted(list(row) for row in running().sql("select * from s.mv").collect())
    return [told["rows_inserted"], told["rows_deleted"], rows]

source = Path(sys.argv[1])
told = []
for rows in json.loads(sys.argv[2]):
    replace_source(source, rows)
    told.append(run())
print("TOLD", json.dumps(told))
"""


def test_load_correct_and_nothing_changed(tmp_path):
    first, second = [[1, "a"], [2, "b"], [2, "b"], [3, "it's"]], [[1, "a"], [2, "b"], [4, "d"]]
    project = Project(tmp_path / "p", tmp_path / "shards", tmp_path / "source")
    done = subprocess.run(
        [sys.executable, "-c", STORY, str(project.source), json.dumps([first, second, second])],
        cwd=project.root, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    told = json.loads(done.stdout.split("TOLD ")[1])
    assert told == [[4, 0, sorted(first)], [1, 2, sorted(second)], [0, 0, sorted(second)]]


INIT = "analytics\n4\n"  # schema and threads; before them the adapter's number and where Spark runs


@pytest.mark.skipif(
    shutil.which("dbt", path=BIN) is None or EDITABLE, reason="dbt init lists only adapters that are installed as a wheel"
)
def test_dbt_init_offers_the_adapter_with_a_profile_that_works(tmp_path):
    def dbt(*arguments, cwd=tmp_path, given=""):
        command = [f"{BIN}/dbt", *arguments, "--profiles-dir", str(tmp_path)]
        return subprocess.run(command, cwd=cwd, input=given, capture_output=True, text=True, timeout=300)

    offered = dbt("init", "shop").stdout
    number = re.search(r"\[(\d+)\] mvsink", offered)[1]
    shutil.rmtree(tmp_path / "shop")
    dbt("init", "shop", given=f"{number}\n1\n{INIT}")
    assert "method: session" in (tmp_path / "profiles.yml").read_text()
    built = dbt("run", cwd=tmp_path / "shop")
    assert "Completed successfully" in built.stdout, built.stdout
