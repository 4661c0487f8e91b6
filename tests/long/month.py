"""A month of a shop, day by day, as a team lives it: `python -m tests.long.month --count 30`.

Every morning data arrives, `dbt build` runs, and someone looks at `mvsink status`. In the first ten
days a bad query is deployed and taken back, another tool deletes rows, a model is renamed, a type
changes, a file deletes half of the orders by mistake, and one model fails for a week; later days
bring some of that again. After every run each view and table is read, and compared with what Spark
makes of its query. The output is the transcript of all that was printed, at the days' times.

`tests/functional/rough/test_month.py` lives ten days of it. The days are simulated: this process's
clock, the runs' times, and the times of commits.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from click.testing import CliRunner
from deltalake import DeltaTable

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.cli.main import cli
from dbt.adapters.mvsink.connection.factory import EMBEDDED
from dbt.adapters.mvsink.shard import Commit, ReadHandle
from tests.support.month_of_a_shop import FIRST, Feed, Shop

DAY = 86_400_000  # ms
MAINTAINED = ("daily_revenue", "margin", "open_orders", "order_log", "orders")
NOT_COMPARED = ("order_log",)  # a task's rows depend on what happened, not on what is
PER_DAY = 1_750  # 70,000 a month, with those of the days before it
FAILING = range(3, 10)  # the days on which `margin` divides by 0


class Wrong(Exception):
    """The month is not as it should be."""


@dataclass
class Clock:
    """The simulated time. Real time passes on top of it."""

    day: int = 1
    offset: int = 0  # ms after the morning
    began: float = field(default_factory=time.time)
    mornings: list[tuple[float, int]] = field(default_factory=list)  # real seconds, simulated ms

    def now(self) -> int:
        """In ms."""
        return self._morning + int((time.time() - self.began) * 1000)

    @property
    def _morning(self) -> int:
        return int(FIRST.timestamp() * 1000) + (self.day - 1) * DAY + self.offset

    def set(self, day: int, hours: float = 0) -> None:
        """It is that day at 6 o'clock, or so many hours later."""
        self.day, self.offset, self.began = day, int(hours * 3_600_000), time.time()
        self.mornings.append((self.began, self._morning))

    def simulated(self, real: int) -> int:
        """The time of a commit that was made at the ``real`` time (ms)."""
        began, morning = max(
            (each for each in self.mornings if each[0] * 1000 <= real + 999), default=self.mornings[0]
        )
        return morning + max(0, real - int(began * 1000))

    def install(self) -> None:
        """For the rest of this process."""
        wall_clock.install(self.now)
        history = ReadHandle.history

        def simulated(handle: ReadHandle, newest: int | None = None) -> list[Commit]:
            return [
                replace(each, timestamp=self.simulated(each.timestamp)) for each in history(handle, newest)
            ]

        ReadHandle.history = simulated  # type: ignore[method-assign]


@dataclass
class Month:
    """The shop at ``root``. ``say`` gets all that is printed."""

    root: Path
    days: int
    random: Random
    say: Callable[[str], None]
    settings: str = "{}"
    clock: Clock = field(default_factory=Clock)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shop = Shop(self.root)
        self.feed = Feed(self.root / "data", PER_DAY, self.random)
        self.events: dict[int, Callable[[int], None]] = {
            3: self.bad_deploy,
            4: self.taken_back,
            5: self.wrong_delete,
            6: self.renamed,
            7: self.retyped,
            8: self.mistake,
            9: self.corrected,
            10: self.recovered,
        }
        self.deleted: list[int] = []

    def live(self) -> None:
        """Every day of it."""
        os.chdir(self.root)
        os.environ["DBT_PROFILES_DIR"] = str(self.root)
        self.clock.set(1)
        self.clock.install()
        self.shop.write(self.settings)
        for number in range(1, self.days + 1):
            self.clock.set(number)
            self.say(f"\n===== day {number}: {FIRST + datetime.timedelta(days=number - 1):%Y-%m-%d} =====\n")
            self.feed.day(number, rate="0.00" if number in FAILING else "1.25")
            if number == 1:
                self.dbt(
                    "run-operation", "register", "--args", json.dumps({"place": str(self.root / "data")})
                )
            event = self.events.get(number) or (
                self.events[self.random.choice((5, 8, 9))] if number > 10 else None
            )
            if event is not None:
                event(number)
            self.morning(number)

    # what a day brings

    def morning(self, number: int) -> None:
        """The nightly build, a look at the status, and every second week dev."""
        self.dbt("build", "--target", "prod", passes=None)
        self.compare("prod", expected_failures={"margin"} if number in FAILING else set())
        self.mvsink("status", "--target", "prod", code=None)
        self.mvsink("history", "--target", "prod", "--limit", "8")
        if number % 14 == 2:
            self.dbt("build", "--target", "dev", "--exclude", "margin", passes=None, user="eve")
            # its task is not reset; `max_change` stops two weeks of changes
            self.compare("dev", expected_failures={"margin", "order_log", self.shop.customers})

    def bad_deploy(self, number: int) -> None:
        """Cents in place of euros."""
        self.shop.factor = "100 * "
        self.shop.deploy()

    def taken_back(self, number: int) -> None:
        """Someone notices, and asks what happened."""
        self.mvsink("history", "daily_revenue", "--target", "prod")
        self.mvsink("diff", "daily_revenue", "--target", "prod", "--sample", "3", code=None)
        self.shop.factor = ""
        self.shop.deploy()
        self.mvsink("plan", "--target", "prod", "--select", "daily_revenue", code=None)

    def wrong_delete(self, number: int) -> None:
        """Another tool deletes rows of a shard."""
        place = self.root / "shards" / "shop_prod" / "daily_revenue"
        DeltaTable(str(place)).delete("country = 'de'")
        self.mvsink("explain", "daily_revenue", "--target", "prod", code=None)

    def renamed(self, number: int) -> None:
        """`customers` are called buyers from now on."""
        self.shop.customers = "buyers"
        self.shop.deploy()
        self.mvsink("drop", "customers", "--target", "prod", "--yes")

    def retyped(self, number: int) -> None:
        """More digits for amounts."""
        self.shop.amount = "decimal(12,2)"
        self.shop.deploy()
        self.mvsink("plan", "--target", "prod", "--select", "orders+", code=None)

    def mistake(self, number: int) -> None:
        """The task starts again after the change of types; and half of the orders are gone:
        `max_change` refuses that of the buyers.
        """
        if number == 8:
            reset = json.dumps({"mvsink_reset": ["order_log"]})
            self.dbt("run", "--select", "order_log", "--target", "prod", "--full-refresh", "--vars", reset)
        self.deleted = self.feed.delete_half(number)

    def corrected(self, number: int) -> None:
        """They are back."""
        if self.deleted:
            self.feed.restore(number, self.deleted)
        self.deleted = []

    def recovered(self, number: int) -> None:
        """The rates are corrected; and a run is taken back and made again."""
        self.feed.correct_rates(FAILING)
        self.mvsink("undo", "daily_revenue", "-1", "--target", "prod", "--yes", "--reason", "a rehearsal")
        self.mvsink("blame", "daily_revenue", "--target", "prod", "--where", "country = 'jp'", "--limit", "2")
        self.mvsink("release", "daily_revenue", "--target", "prod", "--yes")

    # commands

    def dbt(self, *arguments: str, passes: bool | None = True, user: str = "ada") -> None:
        """dbt's command, at the simulated time."""
        from dbt.cli.main import dbtRunner

        os.environ.update(MVSINK_USER=user, MVSINK_RUN_TIME=str(self.clock.now()))
        self.say(f"$ dbt {' '.join(arguments)}")
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            done = dbtRunner().invoke([*arguments, "--no-use-colors"])
        self.say(out.getvalue() + err.getvalue())
        if done.exception is not None or (passes is not None and done.success is not passes):
            self.wrong.append(f"day {self.clock.day}: dbt {arguments[0]}: {done.exception or done.success}")
        self.results = {
            each.node.name: each
            for each in getattr(done.result, "results", ()) or ()
            if hasattr(each, "node")
        }

    def mvsink(self, *arguments: str, code: int | None = 0) -> None:
        """`mvsink`, likewise. None: any exit code but that of a defect."""
        os.environ["MVSINK_RUN_TIME"] = str(self.clock.now())
        self.say(f"$ mvsink {' '.join(arguments)}")
        done = CliRunner().invoke(cli, list(arguments))
        self.say(done.output)
        crashed = done.exception is not None and not isinstance(done.exception, SystemExit)
        if crashed or (code is not None and done.exit_code != code):
            self.wrong.append(
                f"day {self.clock.day}: mvsink {arguments[0]}: {done.exit_code} {done.exception}"
            )

    # whether all is as it should be

    def compare(self, target: str, expected_failures: set[str]) -> None:
        """Read every view and table, and compare those that ran with what Spark makes of their
        queries.
        """
        spark = EMBEDDED.running()
        failed = {name for name, each in self.results.items() if str(each.status) == "error"}
        refused = {self.shop.customers} if self.deleted else set()
        if self.clock.day == 7:
            refused.add("order_log")  # its columns changed
        if not failed <= expected_failures | refused:
            self.wrong.append(f"day {self.clock.day}: {sorted(failed)} failed in {target}")
        for row in spark.sql(f"show tables in shop_{target}").collect():
            name = str(row["tableName"])
            rows = spark.table(f"shop_{target}.{name}").count()
            result = self.results.get(name)
            if name in NOT_COMPARED or result is None or str(result.status) != "success":
                continue
            text = str(getattr(result.node, "compiled_code", None) or "")
            if not text or str(result.node.resource_type) != "model":
                continue
            shown, wanted = f"select * from shop_{target}.{name}", f"select * from ({text})"
            both = (f"({one} except all {other})" for one, other in ((shown, wanted), (wanted, shown)))
            differing = spark.sql(" union all ".join(both)).count()
            if differing:
                self.wrong.append(f"day {self.clock.day}: {target}.{name}: {differing} of {rows} rows differ")

    def conclude(self) -> None:
        """The log of orders has each order that there ever was, and a failing model is shown."""
        logged = (
            EMBEDDED.running().sql("select count(distinct order_id) from shop_prod.order_log").collect()[0][0]
        )
        ever = {key for key, row in self.feed.newest.items() if row["version"] > 1 or not row["deleted"]}
        if logged > len(ever):
            self.wrong.append(f"the task has logged {logged} orders of {len(ever)}")


def unnumbered(line: str) -> str:
    """A line without what differs from run to run."""
    return re.sub(r"\d\d:\d\d:\d\d|\d+\.\d+s?|[0-9a-f]{8}-[0-9a-f-]{27}", "_", line)


@contextlib.contextmanager
def place(kept: str | None) -> Iterator[Path]:
    """The directory of the month: a temporary one, or one to keep."""
    if kept is not None:
        Path(kept).mkdir(parents=True)
        yield Path(kept).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="month-") as directory:
        yield Path(directory)


def main() -> int:
    """Live the month; 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=30, help="days")
    parser.add_argument("--transcript", help="write what was printed to this file, too")
    parser.add_argument("--place", help="a directory to make and keep; temporary if none is named")
    parser.add_argument("--settings", default="{}", help="Spark's, as JSON")
    arguments = parser.parse_args()
    transcript = open(arguments.transcript, "w") if arguments.transcript else None  # noqa: SIM115

    def say(text: str) -> None:
        print(text.rstrip("\n"), flush=True)
        if transcript is not None:
            print(text.rstrip("\n"), file=transcript, flush=True)

    with place(arguments.place) as root:
        month = Month(root, arguments.count, Random(arguments.seed), say, arguments.settings)
        month.live()
        month.conclude()
        os.chdir("/")
    print(f"\n{len(month.wrong)} wrong in {arguments.count} days", *month.wrong, sep="\n  ")
    return 1 if month.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
