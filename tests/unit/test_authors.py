"""Who runs a command: what the environment and git say, and that no secret is among it."""

from __future__ import annotations

import subprocess

import pytest

from dbt.adapters.mvsink import authors
from dbt.adapters.mvsink.adapter import recorded_author
from dbt.adapters.mvsink.authors import author, git_of, shown_command
from dbt.adapters.mvsink.credentials import MvsinkCredentials
from dbt.adapters.mvsink.masking import keep_secret
from dbt.adapters.mvsink.shard.authorship import author as recorded_now


def git(place, *words):
    names = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", "-C", str(place), *names, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    """A project in a directory of a repository with one commit."""
    git(tmp_path, "init", "-q", "-b", "trunk")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "dbt_project.yml").write_text("name: shop\n")
    return tmp_path


def test_the_repository_that_the_project_is_in(repository):
    project = str(repository / "shop")
    assert git_of(project) == {"commit": "", "branch": "trunk", "dirty": "no"}
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "first")
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "untracked").touch()
    assert git_of(project) == {"commit": commit, "branch": "trunk", "dirty": "no"}
    (repository / "shop" / "dbt_project.yml").write_text("name: other\n")
    git(repository, "checkout", "-q", "--detach")
    assert git_of(project) == {"commit": commit, "branch": "", "dirty": "yes"}
    # a CI checks out a commit, and knows its branch
    assert author(project, "dbt run", {"GITHUB_REF_NAME": "main"})["branch"] == "main"


def test_without_a_repository_and_without_git(tmp_path, monkeypatch):
    assert git_of(str(tmp_path)) == {}
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_of(str(tmp_path)) == {}


def test_a_git_that_does_not_answer_is_not_waited_for(tmp_path, monkeypatch):
    slow = tmp_path / "git"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(authors, "GIT_TIMEOUT", 0.1)
    assert git_of(str(tmp_path)) == {}


@pytest.mark.parametrize(
    ("environment", "user", "link"),
    [
        ({"MVSINK_USER": "ada", "GITHUB_ACTOR": "bot"}, "ada", None),
        ({"MVSINK_USER": "", "GITLAB_USER_LOGIN": "eve", "CI_JOB_URL": "https://g/-/jobs/1"}, "eve", "https://g/-/jobs/1"),
        (
            {"GITHUB_ACTOR": "bot", "GITHUB_SERVER_URL": "https://h", "GITHUB_REPOSITORY": "a/b", "GITHUB_RUN_ID": "7"},
            "bot",
            "https://h/a/b/actions/runs/7",
        ),
        ({"BUILD_USER_ID": "joe", "BUILD_URL": "https://ci/job/3/"}, "joe", "https://ci/job/3/"),
        ({"MVSINK_USER": "a\nb\x1b[31m"}, "a b [31m", None),
        ({"MVSINK_USER": "x" * 999}, "x" * authors.LONGEST, None),
    ],
)  # fmt: skip
def test_the_user_and_the_link(environment, user, link):
    fields = author("/p", "dbt run", environment, git=lambda project: {})
    assert (fields["user"], fields.get("link"), fields["command"]) == (user, link, "dbt run")


def test_a_user_without_a_name(monkeypatch):
    """In a container whose user is a number only."""

    def nameless():
        raise KeyError("getpwuid(): uid not fields: 4711")

    monkeypatch.setattr(authors.getpass, "getuser", nameless)
    monkeypatch.setattr(authors.os, "getuid", lambda: 4711)
    assert author("/p", "", {}, git=lambda project: {}) == {"user": "4711"}


def test_no_secret_is_recorded():
    keep_secret(["hunter2"])
    assert (
        author("/p", "dbt run -s hunter2", {"MVSINK_USER": "a"}, lambda p: {})["command"] == "dbt run -s ***"
    )
    for option in ("--vars", "--args"):
        assert "x" not in shown_command("dbt", ["run", option, "x", f"{option}=x"])


@pytest.mark.parametrize("recorded", [True, False])
def test_a_profile_turns_it_off(recorded, monkeypatch):
    recorded_author.install()
    monkeypatch.setenv("MVSINK_USER", "ada")
    monkeypatch.setattr("sys.argv", ["/bin/dbt", "run", "--args", "{token: x}"])
    MvsinkCredentials.from_dict({"schema": "s", "record_author": recorded})
    known = recorded_now()
    assert (known.get("user"), known.get("command")) == (
        ("ada", "dbt run --args ...") if recorded else (None, None)
    )
