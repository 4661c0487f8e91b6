"""What is read of a profile without dbt is what dbt reads."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import click
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dbt.adapters.mvsink.cli import dbt_profile, plain_profile
from dbt.adapters.mvsink.credentials import MvsinkCredentials
from tests.unit.cli.shop import NOW, write

KNOWN = (
    *plain_profile.TEXTS,
    *plain_profile.NUMBERS,
    *plain_profile.SWITCHES,
    *plain_profile.OF_TEXTS,
    *plain_profile.OTHERS,
)
PLAIN = {
    "the least": "type: mvsink, schema: s",
    "threads": "type: mvsink, schema: s, threads: 4",
    "a place": "type: mvsink, schema: s, shard_root: '~/shards'",
    "a variable": "type: mvsink, schema: s, shard_root: \"{{ env_var('SHOP_ROOT') }}\"",
    "one of two": "type: mvsink, schema: \"{{ env_var('A') }}_{{env_var('NONE', 'x')}}\"",
    "a variable with quotes": "type: mvsink, schema: \"{{ env_var('QUOTED') }}\"",
    "a number as a text": "type: mvsink, schema: s, shard_root: \"{{ env_var('NUMBER') }}\"",
    "a store": "type: mvsink, schema: s, shard_root: 's3://b/s', storage_options: {AWS_KEY: abcd, PORT: 9000, HTTP: true}",
    "switches": "type: mvsink, schema: s, read_only: true, record_author: false, metastore_timeout: 1.5",
    "formats": "type: mvsink, schema: s, formats: [delta, iceberg]",
    "a catalog": "type: mvsink, schema: s, iceberg_catalog: {uri: 'sqlite:///c', ssl: false}",
    "connect": "type: mvsink, schema: s, method: connect, remote: 'sc://h:15002', shard_root: /s, headers: {x-a: b}",
    "thrift": "type: mvsink, schema: s, method: thrift, host: h, port: 10000, shard_root: /s, user: u",
    "settings": "type: mvsink, schema: s, server_side_parameters: {spark.sql.shuffle.partitions: 8}",
}
LEFT = {
    "var()": "type: mvsink, schema: s, shard_root: \"{{ var('root') }}\"",
    "a filter": "type: mvsink, schema: s, progress: \"{{ env_var('YES') | as_bool }}\"",
    "a secret": "type: mvsink, schema: s, shard_root: \"{{ env_var('DBT_ENV_SECRET_ROOT') }}\"",
    "a variable that is not set": "type: mvsink, schema: s, shard_root: \"{{ env_var('NONE') }}\"",
    "an expression": "type: mvsink, schema: s, shard_root: \"{{ env_var('A') ~ 'x' }}\"",
    "a comment": 'type: mvsink, schema: "s{# x #}"',
    "an unknown key": "type: mvsink, schema: s, shards: x",
    "an alias": "type: mvsink, dbname: s",
    "another adapter": "type: postgres",
    "a wrong value": "type: mvsink, schema: s, read_only: 'yes'",
    "a number for a text": "type: mvsink, schema: 7",
    "a place that is refused": "type: mvsink, schema: s, shard_root: 'a:b'",
    "nothing": "type: mvsink, schema: s, token: null",
    "a list": "type: mvsink, schema: s, storage_options: {A: [1]}",
}
VARIABLES = {
    "SHOP_ROOT": "shards/",
    "A": "a",
    "QUOTED": "'q'",
    "NUMBER": "007",
    "YES": "true",
    "DBT_ENV_SECRET_ROOT": "hunter2",
}


@pytest.fixture(autouse=True)
def variables(monkeypatch):
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


def both(shop, output):
    shop.profiles(f"p: {{target: dev, outputs: {{dev: {{{output}}}}}}}")
    place = (str(shop.root), str(shop.root), None, None)
    return plain_profile.read(*place), place


@pytest.mark.parametrize("output", PLAIN.values(), ids=PLAIN)
def test_what_is_read_without_dbt_is_what_dbt_reads(shop, output):
    plain, place = both(shop, output)
    expected = dbt_profile.read(*place, {})
    keys = {key: value for key, value in plain.keys.items() if key not in ("type", "threads")}
    assert dataclasses.replace(plain, keys=keys) == expected


@pytest.mark.parametrize("output", LEFT.values(), ids=LEFT)
def test_what_needs_dbt_is_left_to_dbt(shop, output):
    assert both(shop, output)[0] is None


def test_the_names_of_project_profile_and_target(shop):
    place = (str(shop.root), str(shop.root))
    assert plain_profile.read(*place, None, "prod").name == "prod"
    assert plain_profile.read(*place, None, "none") is plain_profile.read(*place, "none", None) is None
    (shop.root / "dbt_project.yml").write_text(
        "name: shop\nprofile: \"{{ env_var('P', 'p') }}\"\nversion: '1'\n"
    )
    plain = plain_profile.read(*place, None, None)
    assert plain == dataclasses.replace(dbt_profile.read(*place, None, None, {}), keys=plain.keys)
    (shop.root / "dbt_project.yml").write_text("name: [shop\n")
    assert plain_profile.read(*place, None, None) is None
    (shop.root / "profiles.yml").unlink()
    assert plain_profile.read(*place, None, None) is None


def test_every_key_of_the_adapter_is_known_or_left_to_dbt():
    keys = {field.name for field in dataclasses.fields(MvsinkCredentials)}
    assert keys - {*KNOWN} == {"database"}
    assert {*KNOWN} - keys == {"type", "threads"}


JINJA = st.sampled_from(
    [
        "{{ env_var('A') }}",
        '{{env_var("NONE","d")}}',
        "{{ env_var( 'NUMBER' , '' ) }}",
        "{{ 'x' }}",
        "{% raw %}",
    ]
)
TEXT = st.lists(
    JINJA | st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=3), max_size=3
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXT.map("".join))
@example("{{{ env_var('A') }}")  # Jinja takes the outer two, and refuses it
@example("{{ env_var('A') }}}")
def test_any_text_is_read_as_dbt_does_or_left_to_it(shop, text):
    import yaml

    shop.profiles(
        yaml.safe_dump(
            {"p": {"target": "dev", "outputs": {"dev": {"type": "mvsink", "schema": "s", "user": text}}}}
        )
    )
    place = (str(shop.root), str(shop.root), None, None)
    plain = plain_profile.read(*place)
    if plain is not None:
        assert plain.keys["user"] == dbt_profile.read(*place, {}).keys["user"]
    else:
        assert "{" in text or "}" in text


HEAVY = ("dbt_common", "dbt.cli", "dbt.config", "dbt.adapters.base", "dbt.adapters.spark")
ARROW = ("pandas", "pyarrow.dataset")  # what PyArrow imports for a filter
HEAVY += ("agate", "jinja2", "networkx", "pyspark", "grpc", "pyiceberg")
CODE = """
import sys
from dbt.adapters.mvsink.cli.main import cli
try:
    cli(sys.argv[1:], standalone_mode=False)
finally:
    loaded = {".".join(name.split(".")[:size]) for name in sys.modules for size in (1, 2, 3)}
    print(f"loaded={sorted(loaded)}", file=sys.stderr)
"""
COMMANDS = (["status"], ["status", "--wide"], ["history"], ["history", "orders"])
COMMANDS += (["blame", "orders", "--where", "x = 'a'"],)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_commands_that_read_logs_do_not_import_dbt(shop, arguments):
    write(shop.shard("s.orders", "orders"), NOW, ("a", 1))
    process = subprocess.run(
        [sys.executable, "-c", CODE, *arguments], cwd=shop.root, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    assert "inputs unchanged" in process.stdout or "orders" in process.stdout
    loaded = process.stderr.partition("loaded=")[2]
    heavy = HEAVY if arguments[0] == "blame" else (*HEAVY, *ARROW)
    assert loaded and [name for name in heavy if f"'{name}'" in loaded] == []


def test_a_profile_that_needs_dbt_is_read_by_it(shop):
    shop.profiles('p: {target: dev, outputs: {dev: {type: mvsink, schema: s, threads: "{{ 1 + 1 }}"}}}')
    write(shop.shard("s.orders", "orders"), NOW, ("a", 1))
    assert "orders" in shop.run("status").stdout


def test_a_wrong_profile_is_refused_in_dbts_words(shop):
    shop.profiles("p: {target: dev, outputs: {dev: {type: mvsink, schema: s, port: x}}}")
    with pytest.raises(click.UsageError, match="port"):
        dbt_profile.read(str(shop.root), str(shop.root), None, None, {})
    assert shop.run("status").exit_code == 2
