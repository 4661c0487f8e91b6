"""Options that a project sets for a folder of views and tasks, as dbt passes them."""

from __future__ import annotations

import pytest
from dbt.cli.main import dbtRunner

from dbt.adapters.mvsink.exceptions import InvalidOption, OptionNotOffered
from dbt.adapters.mvsink.materialization.options.folder_configs import configs_of
from dbt.adapters.mvsink.materialization.options.table import TASK, ModelOptions

PROJECT = """
name: shop
version: '1.0'
profile: p
models:
  shop:
    mixed:
      +refresh: {every: 1 hour}
      +max_change: {rows: 5}
      +input_files: append_only
      +snapshot: false
      +retain_history: 2 hours
    broken:
      +max_change: {rows: many}
    wrong:
      +retain_histroy: 2 hours
"""
PROPERTIES = """
models:
  - {name: task_in_file, config: {max_change: {rows: 5}}}
  - {name: view_in_file, config: {input_files: append_only}}
  - {name: task_in_both, config: {refresh: {every: 1 hour}}}
  - {name: view_described, description: no configs}
"""
MODELS = {  # folder, materialization, own configs
    "view": ("mixed", "self_correcting_mv", ""),
    "view_described": ("mixed", "self_correcting_mv", ""),
    "view_of_its_own": ("mixed", "self_correcting_mv", "snapshot=true"),
    "view_in_file": ("mixed", "self_correcting_mv", ""),
    "task": ("mixed", "continual_task", ""),
    "task_of_its_own": ("mixed", "continual_task", "audit=true"),
    "task_in_file": ("mixed", "continual_task", ""),
    "task_in_both": ("mixed", "continual_task", ""),
    "invalid": ("broken", "continual_task", ""),
    "misspelt": ("wrong", "continual_task", ""),
    "misspelt_view": ("wrong", "self_correcting_mv", ""),
}
REFUSED = {
    "view_of_its_own": (OptionNotOffered, "`snapshot` (got True): only a continual_task has this config"),
    "view_in_file": (OptionNotOffered, "`input_files`"),
    "task_of_its_own": (OptionNotOffered, "`audit` (got True): only a self_correcting_mv has this config"),
    "task_in_file": (OptionNotOffered, "`max_change`"),
    "task_in_both": (InvalidOption, "`refresh`"),
    "invalid": (InvalidOption, "`max_change`"),
    "misspelt": (InvalidOption, "did you mean `retain_history`"),
    "misspelt_view": (InvalidOption, "did you mean `retain_history`"),
}


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    """Read again by dbt from its file of a first parse, as most runs do."""
    root = tmp_path_factory.mktemp("shop")
    (root / "dbt_project.yml").write_text(PROJECT)
    (root / "profiles.yml").write_text(
        "p: {target: dev, outputs: {dev: {type: mvsink, schema: s, threads: 2}}}\n"
    )
    for name, (folder, materialized, own) in MODELS.items():
        (root / "models" / folder).mkdir(parents=True, exist_ok=True)
        configs = ", ".join(each for each in (f"materialized='{materialized}'", own) if each)
        (root / "models" / folder / f"{name}.sql").write_text(f"{{{{ config({configs}) }}}} select 1 a")
    (root / "models" / "schema.yml").write_text(PROPERTIES)
    where = ["--project-dir", str(root), "--profiles-dir", str(root)]
    for _ in range(2):
        parsed = dbtRunner().invoke(["--quiet", "parse", *where])
        assert parsed.success, parsed.exception
    return parsed.result


def parsed_options(manifest, name):
    node = manifest.nodes[f"model.shop.{name}"].to_dict(omit_none=False)
    configs = configs_of("dev.m", node, manifest)
    parse = ModelOptions.parse_task if MODELS[name][1] == TASK else ModelOptions.parse
    return parse("dev.m", configs)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in REFUSED])
def test_row_k_what_only_the_other_materialization_has_is_ignored_from_a_folder(manifest, name):
    options = parsed_options(manifest, name)
    assert options.retain_history == 2 * 3_600_000
    if name == "task":
        assert (options.input_files, options.initial_snapshot) == ("append_only", False)
        assert options.refresh.on_commit and options.max_change is None
    else:
        assert not options.refresh.on_commit and options.max_change.rows == 5
        assert (options.input_files, options.initial_snapshot) == ("copied", True)


@pytest.mark.parametrize("name", REFUSED)
def test_row_k_it_is_refused_in_the_models_own_configs_and_where_no_model_can_have_it(manifest, name):
    kind, words = REFUSED[name]
    with pytest.raises(kind) as error:
        parsed_options(manifest, name)
    assert words in str(error.value)


def test_row_k_where_a_properties_file_is_not_known_all_configs_are_the_models_own(manifest):
    class Files:
        files = {}

    node = manifest.nodes["model.shop.task_in_file"].to_dict(omit_none=False)
    with pytest.raises(InvalidOption, match="`refresh`"):
        ModelOptions.parse_task("dev.m", configs_of("dev.m", node, Files()))
