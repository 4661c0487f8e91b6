"""Our commands' options are dbt's: names, values, variables of the environment."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner
from dbt.cli import params

from dbt.adapters.mvsink.cli import dbt_options
from dbt.adapters.mvsink.cli.dbt_runner import flat

NAMES = ("project_dir", "profiles_dir", "profile", "target", "vars", "select", "exclude", "state", "defer")
NAMES += ("favor_state",)


def option(of, name):
    """The option as click has it."""

    @click.command()
    @getattr(of, name)
    def command(**_):
        pass

    [parameter] = command.params
    return parameter


@pytest.mark.parametrize("name", NAMES)
def test_an_option_has_the_names_and_variables_of_dbts(name):
    ours, dbts = option(dbt_options, name), option(params, name)
    assert {*ours.opts, *ours.secondary_opts} == {*dbts.opts, *dbts.secondary_opts}
    assert ours.name == dbts.name
    variables = [dbts.envvar] if isinstance(dbts.envvar, str) else list(dbts.envvar or ())
    assert set(variables) <= set(ours.envvar or ()) and bool(variables) == bool(ours.envvar)


@pytest.mark.parametrize("where", [".", "models/deep"])
@pytest.mark.parametrize("profiles", [True, False])
def test_directories_are_found_as_dbt_does(tmp_path, monkeypatch, where, profiles):
    from dbt.cli import resolvers

    (tmp_path / "models" / "deep").mkdir(parents=True)
    (tmp_path / "dbt_project.yml").touch()
    monkeypatch.chdir(tmp_path / where)
    if profiles:
        (tmp_path / where / "profiles.yml").touch()
    assert dbt_options.default_project_dir() == resolvers.default_project_dir()
    assert dbt_options.default_profiles_dir() == resolvers.default_profiles_dir()


WORDS = (
    (),
    ("--select", "a"),
    ("--select", "a", "b"),
    ("-s", "a b", "c"),
    ("--select=a", "b"),
    ("--select", "tag:x,tag:y", "--exclude", "c", "d", "--select", "e"),
    ("-m", "a", "--exclude=b"),
    ("--models", "@a+1"),
)


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_selectors_take_the_words_that_dbt_takes(words):
    read = {}

    def command(of, arguments):
        @click.command()
        @of.select
        @of.exclude
        def inner(select, exclude):
            read[of] = (flat(select), flat(exclude))

        result = CliRunner().invoke(inner, list(arguments))
        assert result.exit_code == 0, result.output

    command(params, words)
    command(dbt_options, dbt_options.repeated(words))
    assert read[dbt_options] == read[params]


@pytest.mark.parametrize("words", [("--select",), ("--exclude",)])
def test_a_selector_without_words_is_wrong_usage(shop, words):
    assert shop.run("status", *words).exit_code == 2


@pytest.mark.parametrize("value", ["{a: 1, b: [x]}", "a: 1", "{}"])
def test_variables_are_read_as_dbt_does(value):
    ours, dbts = (
        option(of, "vars").type.convert(value, None if of is dbt_options else option(params, "vars"), None)
        for of in (dbt_options, params)
    )
    assert ours == dbts


@pytest.mark.parametrize("value", ["[1]", "x", "{a: ", "7"])
def test_variables_that_are_no_mapping_are_wrong_usage(shop, value):
    result = shop.run("status", "--vars", value)
    assert result.exit_code == 2 and "mapping in YAML" in result.stderr
