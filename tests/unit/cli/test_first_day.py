"""Mistakes of a newcomer's first day: docs/first-day.md has what was typed and what is printed.

Each row of its table is a case of this name, here or in
`tests/functional/materialization/test_sql_errors.py`. Where only the operating system can fail, its
error is raised in its place.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.adapter.seeds import _header
from dbt.adapters.mvsink.adapter.variables import check_variables
from dbt.adapters.mvsink.connection.java import check_java
from dbt.adapters.mvsink.connection.metastore import MetastoreLock
from dbt.adapters.mvsink.connection.settings import check_jars
from dbt.adapters.mvsink.continual_task.parse import parse
from dbt.adapters.mvsink.credentials import MvsinkCredentials
from dbt.adapters.mvsink.exceptions import OwnedByAnother
from dbt.adapters.mvsink.materialization.errors import translated
from dbt.adapters.mvsink.materialization.options.table import ModelOptions
from dbt.adapters.mvsink.shard import ShardClient
from tests.functional.materialization.test_sql_errors import MISTAKES as WITH_SPARK
from tests.support.first_day import ROWS, agrees, printed
from tests.support.shards import SCHEMA
from tests.unit.cli.shop import Shop

Act = Callable[[Shop, pytest.MonkeyPatch], str]


def of_profile(**keys: object) -> Act:
    """`mvsink status` with these keys of the profile; dbt checks them alike."""

    def act(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> str:
        target = {"type": "mvsink", "schema": "s", **keys}
        wanted = {key: value for key, value in target.items() if value is not None}
        shop.profiles(json.dumps({"p": {"target": "dev", "outputs": {"dev": wanted}}}))
        return shop.run("status").stderr

    return act


def of_command(*arguments: str) -> Act:
    return lambda shop, _: shop.run(*arguments).stderr


def of(call: Callable[..., object], *arguments: object) -> Act:
    """What dbt prints of the error of a call that is made for the model `s.orders`."""

    def act(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> str:
        try:
            with translated("s.orders"):
                call(*arguments)
        except Exception as error:
            return str(error)
        return ""

    return act


def config(**configs: object) -> Act:
    return of(ModelOptions.parse, "s.orders", configs)


def variables(**values: object) -> Act:
    return of(check_variables, SimpleNamespace(cli_vars=values, vars=None, args=SimpleNamespace(vars=values)))


def task(text: str) -> Act:
    return of(lambda: parse(text, "s.orders", "s.orders"))


def failing(number: int, path: str) -> Callable[[], None]:
    def fail() -> None:
        raise OSError(number, os.strerror(number), path)

    return fail


def java_11(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> str:
    program = shop.root / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(shop.root))
    return of(check_java)(shop, monkeypatch)


def no_java(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(shop.root))
    return of(check_java)(shop, monkeypatch)


def no_pyspark(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    return of(MvsinkCredentials.from_dict, {"schema": "s"})(shop, monkeypatch)


def two_runs(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> str:
    path = shop.root / "lock"
    first = MetastoreLock(path)
    first.acquire(0, print)
    try:
        return of(MetastoreLock(path).acquire, 0.1, print)(shop, monkeypatch)
    finally:
        first.release()


def no_project(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOME", str(shop.root / "home"))
    (shop.root / "home" / ".dbt").mkdir(parents=True)
    monkeypatch.chdir("/")
    return shop.run("status").stderr


def damaged(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> str:
    shop.destroy("s.orders")
    monkeypatch.setattr("dbt.adapters.mvsink.cli.discovery.TIMEOUT", 0.0)
    return shop.run("history", "s.orders").stderr


def dropped(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> str:
    handle = ShardClient().open_writer(str(shop.at("s.orders")), SCHEMA, "drop")
    handle.mark_dropped(1)
    return shop.run("hold", "orders").stderr


def seed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> str:
    Path("rates.csv").write_text("day,rate,Day\n2026-01-01,1,2\n")
    return of(_header, "rates.csv", ",")(shop, monkeypatch)


def wrong_ref(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> str:
    (shop.root / "models").mkdir()
    (shop.root / "models" / "daily.sql").write_text("select * from {{ ref('ordrs') }}")
    return shop.run("plan").stderr


MISTAKES: dict[str, Act] = {
    "no schema": of_profile(schema=None),
    "an unknown method": of_profile(method="sesion"),
    "a misspelt key": of_profile(shard_rot="/data"),
    "a text for true": of_profile(read_only="yes"),
    "another type": of_profile(type="mvsnk"),
    "no such target": of_command("status", "--target", "prd"),
    "no such profile": of_command("status", "--profile", "q"),
    "no project": no_project,
    "an unknown format": of_profile(formats=["detla"]),
    "no server": of_profile(method="connect", shard_root="/data"),
    "no place for a server": of(MvsinkCredentials.from_dict, {"schema": "s", "method": "connect", "remote": "sc://h"}),
    "no Java": no_java,
    "Java 11": java_11,
    "no PySpark": no_pyspark,
    "a missing jar": of(check_jars, {"spark.jars": "/opt/jars/delta.jar"}),
    "two runs": two_runs,
    "a full disk": of(failing(errno.ENOSPC, "/data/shards/s/orders/table/a.parquet")),
    "a read-only folder": of(failing(errno.EROFS, "/data/shards/s/orders")),
    "a misspelt config": config(refres={"every": "1 hour"}),
    "an invalid duration": config(retain_history="1 dya"),
    "a bad cron": config(refresh={"cron": "61 * * * *"}),
    "an invalid choice": config(incremental="sometimes"),
    "a limit in words": config(max_change="a few"),
    "a config of tasks": config(input_files="append_only"),
    "a misspelt variable": variables(mvsink_readonly=True),
    "an invalid variable": variables(mvsink_read_only="maybe"),
    "a time in words": variables(mvsink_run_time="yesterday"),
    "a query as a task": task("select * from s.raw"),
    "a task with two inputs": task("on input s.a, s.b as (insert into s.orders select * from s.a)"),
    "a task that writes elsewhere": task("on input s.a as (insert into s.other select * from s.a)"),
    "a task without INTO": task("on input s.a as (insert s.orders select * from s.a)"),
    "a seed with one name twice": seed,
    "two targets in one schema": of(lambda: _raise(OwnedByAnother("s.orders", "/data/s/orders", "orders (dev)", "orders (prod)"))),
    "a ref to nothing": wrong_ref,
    "a misspelt command": of_command("statu"),
    "a misspelt option": of_command("status", "--outptu", "json"),
    "a misspelt model": of_command("history", "ordrs"),
    "a point in words": of_command("diff", "orders", "yesterday"),
    "a misspelt column of blame": of_command("blame", "orders", "--where", "idd = 1"),
    "an interval in words": of_command("watch", "--interval", "soon"),
    "options that exclude each other": of_command("diff", "orders", "--key", "x", "--no-key"),
    "a damaged log": damaged,
    "a dropped model": dropped,
}  # fmt: skip


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.usefixtures("orders", "quick")
@pytest.mark.parametrize("name", MISTAKES)
def test_what_is_printed(name, shop, monkeypatch):
    actual = MISTAKES[name](shop, monkeypatch)
    assert agrees(name, actual), printed(actual)


def test_every_row_is_tested():
    assert ROWS.keys() == MISTAKES.keys() | WITH_SPARK and len(ROWS) >= 40


def test_rows_of_our_own_errors_have_a_code():
    ours = {name for name, row in ROWS.items() if not re.search(r"MVS-\d{3}|Compilation Error", row)}
    assert ours == set()
