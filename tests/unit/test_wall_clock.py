"""All of the package takes its time from one function, which tests can move."""

from __future__ import annotations

import ast
import time
from pathlib import Path

from dbt.adapters.mvsink import wall_clock
from tests.support.clocks import DAY, clock_ahead
from tests.support.package_edges import ROOT

PACKAGE = ROOT / "dbt" / "adapters" / "mvsink"
CLOCKS = {"time", "time_ns", "localtime", "gmtime", "ctime", "now", "utcnow", "today"}
MODULES = {"time", "datetime"}


def clocks_read(path: Path) -> set[str]:
    """The names by which a file reads the machine's clock."""
    tree = ast.parse(path.read_text())
    read, modules = set(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            modules |= {alias.asname or alias.name: node.module for alias in node.names}
            read |= {alias.name for alias in node.names if node.module == "time" and alias.name in CLOCKS}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS:
            # `time.time`, `datetime.now`, and `dt.datetime.now` of an imported module `dt`
            names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
            if any(modules.get(name) in MODULES for name in names):
                read.add(ast.unparse(node))
    return read


def test_only_one_module_reads_the_machines_clock():
    reading = {str(path.relative_to(PACKAGE)): clocks_read(path) for path in PACKAGE.rglob("*.py")}
    assert {path: read for path, read in reading.items() if read} == {"wall_clock.py": {"time.time_ns"}}


def test_every_way_to_read_the_clock_is_noticed(tmp_path):
    file = tmp_path / "reads.py"
    for text, read in {
        "import time\ntime.time()": {"time.time"},
        "import time as clock\nclock.time_ns()": {"clock.time_ns"},
        "from time import time\ntime()": {"time"},
        "import datetime as dt\ndt.datetime.now()": {"dt.datetime.now"},
        "from datetime import datetime\ndatetime.utcnow()": {"datetime.utcnow"},
        "from datetime import date as day\nfield(default_factory=day.today)": {"day.today"},
        "import time\ntime.monotonic()\ntime.sleep(1)\nstep.time\nfrontier.today()": set(),
    }.items():
        file.write_text(text)
        assert clocks_read(file) == read, text


def test_the_macros_read_no_clock():
    """Jinja's `modules.datetime` would be another clock; `run_started_at` is dbt's own."""
    macros = (ROOT / "dbt" / "include").rglob("*.sql")
    assert not [path for path in macros if "modules.datetime" in path.read_text()]


def test_tests_move_it():
    before = time.time_ns() // 1_000_000
    with clock_ahead(DAY):
        assert before + DAY <= wall_clock.now_ms() <= time.time_ns() // 1_000_000 + DAY
    assert before <= wall_clock.now_ms() <= time.time_ns() // 1_000_000
