"""The directory `.mvsink` beside the project."""

from __future__ import annotations

import subprocess

from dbt.adapters.mvsink.connection.home import prepare


def test_git_sees_nothing_of_it(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    prepare(tmp_path / ".mvsink")
    (tmp_path / ".mvsink" / "spark.log").write_text("")
    told = subprocess.run(
        ["git", "-C", str(tmp_path), "status", "--porcelain"], capture_output=True, text=True, check=True
    )
    assert told.stdout == ""


def test_what_somebody_changed_there_stays(tmp_path):
    (tmp_path / ".gitignore").write_text("!shards")
    prepare(tmp_path)
    assert (tmp_path / ".gitignore").read_text() == "!shards"
