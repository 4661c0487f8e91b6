"""Where the command looks: dbt's options, dbt's profile, no adapter and no Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from dbt.adapters.mvsink.cli.target import load_target
from tests.unit.cli.shop import NOW, write

RENDERED = """
p:
  target: "{{ env_var('SHOP_TARGET', 'dev') }}"
  outputs:
    dev: {type: mvsink, schema: s, shard_root: "{{ env_var('SHOP_ROOT') }}", threads: 1}
    prod:
      type: mvsink
      schema: s
      shard_root: "{{ var('root') }}"
      storage_options: {AWS_SECRET_ACCESS_KEY: "{{ env_var('DBT_ENV_SECRET_KEY') }}"}
"""


def target(shop, profile=None, target=None, **variables):
    return load_target(str(shop.root), str(shop.root), profile, target, variables)


def test_shards_are_beside_the_project_by_default(shop):
    loaded = target(shop)
    assert (loaded.project, loaded.name, loaded.shards, loaded.storage_options) == (
        "shop",
        "dev",
        str(shop.shards),
        None,
    )


def test_environment_variables_vars_and_secrets_are_rendered_as_dbt_does(shop, monkeypatch):
    shop.profiles(RENDERED)
    monkeypatch.setenv("SHOP_ROOT", "shards/")
    monkeypatch.setenv("DBT_ENV_SECRET_KEY", "hunter2")
    assert target(shop).shards == str(shop.root / "shards")
    monkeypatch.setenv("SHOP_TARGET", "prod")
    loaded = target(shop, root="s3://bucket/shards")
    assert (loaded.name, loaded.shards) == ("prod", "s3://bucket/shards")
    assert loaded.storage_options == {"AWS_SECRET_ACCESS_KEY": "hunter2"}
    assert "hunter2" not in repr(loaded)


WRONG = {
    "no such profile": ({"profile": "q"}, "there is no profile 'q' in"),
    "no such target": ({"target": "q"}, "does not have a target named 'q'"),
    "another adapter's target": (
        {"target": "warehouse"},
        "target 'warehouse' of profile 'p' is of type 'postgres', not 'mvsink'",
    ),
}


@pytest.mark.parametrize(("options", "message"), WRONG.values(), ids=WRONG)
def test_what_does_not_lead_to_shards_is_wrong_usage(shop, options, message):
    with pytest.raises(click.UsageError) as raised:
        target(shop, **options)
    assert message in raised.value.message


def test_a_profile_that_the_adapter_refuses_is_refused_with_its_words(shop):
    shop.profiles("p: {target: dev, outputs: {dev: {type: mvsink, schema: s, read_only: 'yes'}}}")
    with pytest.raises(click.UsageError, match="read_only"):
        target(shop)


@pytest.mark.parametrize(
    "wrong", ["storage_options: {AWS_KEY: [hunter2]}", "storage_options: {AWS_KEY: hunter2}, port: x"]
)
def test_a_refused_profile_shows_no_values(shop, wrong):
    shop.profiles(f"p: {{target: dev, outputs: {{dev: {{type: mvsink, schema: s, {wrong}}}}}}}")
    result = shop.run("status")
    assert result.exit_code == 2 and "hunter2" not in result.output, result.output


def test_credentials_in_a_uri_are_masked(shop):
    shop.profiles(
        "p: {target: dev, outputs: {dev: {type: mvsink, schema: s, shard_root: 'gopher://key:hunter2@hole/shards'}}}"
    )
    result = shop.run("status")
    assert "gopher://***@hole/shards" in result.output and "hunter2" not in result.output


def test_a_variable_that_is_not_set_is_wrong_usage(shop):
    shop.profiles(RENDERED)
    with pytest.raises(click.UsageError, match="SHOP_ROOT"):
        target(shop)


def test_a_directory_without_a_project_is_wrong_usage(shop, tmp_path_factory):
    elsewhere = str(tmp_path_factory.mktemp("elsewhere"))
    result = shop.run("status", "--project-dir", elsewhere, "--profiles-dir", str(shop.root))
    assert (result.exit_code, "dbt_project.yml" in result.stderr) == (2, True)


def test_the_options_are_dbt_s(shop, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    named = ("--project-dir", str(shop.root), "--profiles-dir", str(shop.root))
    assert shop.as_json("status", *named, "-t", "prod")["target"] == "prod"
    monkeypatch.setenv("DBT_PROJECT_DIR", str(shop.root))
    monkeypatch.setenv("DBT_PROFILES_DIR", str(shop.root))
    assert shop.as_json("status")["project"] == "shop"


def test_help_names_the_commands(shop):
    shown = " ".join(shop.run("--help").stdout.split())
    assert "status What each shard contains and how far it is behind." in shown
    assert "diff What differs between MODEL's contents at A and at B." in shown
    assert "history Who changed MODEL, when, how and why: runs," in shown


CODE = """
import sys
from dbt.adapters.mvsink.cli.main import cli
for arguments in (["status"], ["status", "--output", "json"], ["history", "orders"]):
    cli(arguments, standalone_mode=False)
loaded = sorted(name for name in sys.modules if name.split(".")[0] in ("pyspark", "py4j"))
assert not loaded, loaded
"""


def test_no_command_imports_spark(shop):
    write(shop.shard("s.orders", "orders"), NOW, ("a", 1))
    process = subprocess.run([sys.executable, "-c", CODE], cwd=shop.root, capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")
    assert "orders" in process.stdout
    assert sorted(path.name for path in Path(shop.root).iterdir()) == [
        ".mvsink",
        "dbt_project.yml",
        "profiles.yml",
    ]
