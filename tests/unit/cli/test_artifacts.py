"""Which of dbt's files contain the values of a condition."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.cli.artifacts import AT_ONCE, artifacts_with, literals_of

CONDITIONS = {
    "id = 7": set(),
    "id = 4711": {"4711"},
    "email = 'ada@example.com' and state in ('A', 'open')": {"ada@example.com", "open"},
    'name = "O\'Hara"': {"O'Hara"},
    "name = 'it''s'": {"it's"},
    "id in (select id from erased)": set(),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_values_of_a_condition(condition):
    assert literals_of(condition) == CONDITIONS[condition]


def test_files_with_them(tmp_path, monkeypatch):
    monkeypatch.delenv("DBT_TARGET_PATH", raising=False)
    monkeypatch.delenv("DBT_LOG_PATH", raising=False)
    (tmp_path / "dbt_project.yml").write_text("target-path: made\n")
    for name, text in {
        "made/run/a.sql": "select 'ada@example.com'",
        "made/run/b.sql": "select 'bob@example.com'",
        "made/across.msgpack": "x" * (AT_ONCE - 3) + "ada@example.com",
        "logs/dbt.log": "ada@example.com",
        "logs/dbt.log.1": "nothing",
        "made/shards/s/_delta_log/0.json": "ada@example.com",
        "models/a.sql": "ada@example.com",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    deleted, elsewhere = artifacts_with(str(tmp_path), {"ada@example.com"})
    assert sorted(deleted) == [str(tmp_path / "made/across.msgpack"), str(tmp_path / "made/run/a.sql")]
    assert elsewhere == [str(tmp_path / "made/shards/s/_delta_log/0.json"), str(tmp_path / "logs/dbt.log")]
    assert (tmp_path / "made/run/b.sql").exists() and (tmp_path / "models/a.sql").exists()
    assert artifacts_with(str(tmp_path), set()) == ([], [])


@pytest.mark.parametrize("target", [".", ".."], ids=["the project", "around it"])
def test_nothing_is_deleted_where_the_project_itself_is(tmp_path, monkeypatch, target):
    monkeypatch.setenv("DBT_TARGET_PATH", target)
    project = tmp_path / "project"
    (project / "models").mkdir(parents=True)
    (project / "models/a.sql").write_text("select 'ada@example.com'")
    (project / "dbt_project.yml").write_text("vars: {who: ada@example.com}")
    deleted, elsewhere = artifacts_with(str(project), {"ada@example.com"})
    assert deleted == [] and len(elsewhere) == 2
    assert (project / "models/a.sql").exists() and (project / "dbt_project.yml").exists()
