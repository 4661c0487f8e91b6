"""The main job in one process, and `dbt init`, with whatever is installed: `make smoke` runs this
on the oldest and the newest.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.projects import Project

DBT = str(Path(sys.executable).parent / "dbt")
STORY = """
import json, sys
from pathlib import Path
from dbt.cli.main import dbtRunner
from dbt.adapters.mvsink.connection.factory import EMBEDDED
from tests.support.projects import replace_source

def run():
    result = dbtRunner().invoke(["run", "--quiet", "--profiles-dir", ".", "--no-use-colors"])
    if not result.success:
        sys.exit(f"{result.exception} {[r.message for r in result.result or []]}")
    response = result.result.results[0].adapter_response
    rows = sorted(list(row) for row in EMBEDDED.running().sql("select * from s.mv").collect())
    return [response["rows_inserted"], response["rows_deleted"], rows]

source = Path(sys.argv[1])
outcomes = []
for rows in json.loads(sys.argv[2]):
    replace_source(source, rows)
    outcomes.append(run())
print("OUTCOMES", json.dumps(outcomes))
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
    outcomes = json.loads(done.stdout.split("OUTCOMES ")[1])
    assert outcomes == [[4, 0, sorted(first)], [1, 2, sorted(second)], [0, 0, sorted(second)]]


QUESTION = "Enter a number: "


def test_dbt_init_offers_the_adapter_with_a_profile_that_works(tmp_path):
    """Installed from a wheel or editable: dbt looks for adapters in site-packages only."""
    place = ["--profiles-dir", str(tmp_path), "--no-use-colors"]
    init = subprocess.Popen(
        [DBT, "init", "shop", *place], cwd=tmp_path, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )  # fmt: skip
    assert init.stdin and init.stdout
    offered = ""
    while QUESTION not in offered and (read := init.stdout.read(1)):
        offered += read
    number = re.search(r"\[(\d+)\] mvsink", offered)
    assert number, offered
    # where Spark runs, the schema, threads
    output, _ = init.communicate(f"{number[1]}\n1\nanalytics\n4\n", timeout=120)
    profile = (tmp_path / "profiles.yml").read_text()
    assert "type: mvsink" in profile and "method: session" in profile, output
    # row p: it shows a first model, which works
    path, model = re.search(r"write this line to (\S+):\n\n  (.*)\n", output).groups()
    (tmp_path / "shop" / path).write_text(model)
    built = subprocess.run(
        [DBT, "run", *place], cwd=tmp_path / "shop", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
    )  # fmt: skip
    assert "Completed successfully" in built.stdout, built.stdout
    assert "OK created sql self_correcting_mv model analytics.my_first_maintained_model" in built.stdout
