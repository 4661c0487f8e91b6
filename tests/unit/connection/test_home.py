"""The directory `.mvsink` beside the project."""

from __future__ import annotations

import subprocess

from dbt.adapters.mvsink.connection.embedded import prepare_home


def test_git_sees_nothing_of_it(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    prepare_home(tmp_path / ".mvsink")
    (tmp_path / ".mvsink" / "spark.log").write_text("")
    status = subprocess.run(
        ["git", "-C", str(tmp_path), "status", "--porcelain"], capture_output=True, text=True, check=True
    )
    assert status.stdout == ""


def test_a_gitignore_that_a_user_changed_stays(tmp_path):
    (tmp_path / ".gitignore").write_text("!shards")
    prepare_home(tmp_path)
    assert (tmp_path / ".gitignore").read_text() == "!shards"
