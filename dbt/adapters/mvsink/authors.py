"""Who runs a command, for the log: the user, the project's git commit, and the command itself.

>>> environment = {"MVSINK_USER": "ada", "CI_JOB_URL": "https://ci/7"}
>>> author("/srv/shop", "dbt run", environment, git=lambda project: {})
{'user': 'ada', 'command': 'dbt run', 'link': 'https://ci/7'}
"""

from __future__ import annotations

import getpass
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from dbt.adapters.mvsink.masking import masked

LONGEST = 300  # characters of each text
GIT_TIMEOUT = 5.0  # seconds
# A CI's own variables: GitHub, GitLab, Jenkins, Buildkite, CircleCI, Azure, Bitbucket. MVSINK_USER
# comes first.
USERS = (
    *("MVSINK_USER", "GITHUB_ACTOR", "GITLAB_USER_LOGIN", "BUILD_USER_ID", "BUILDKITE_BUILD_CREATOR"),
    *("CIRCLE_USERNAME", "BUILD_REQUESTEDFOR", "BITBUCKET_STEP_TRIGGERER_UUID"),
)
BRANCHES = (
    *("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "BRANCH_NAME", "BUILDKITE_BRANCH"),
    *("CIRCLE_BRANCH", "BUILD_SOURCEBRANCHNAME", "BITBUCKET_BRANCH"),
)
LINKS = ("CI_JOB_URL", "BUILD_URL", "BUILDKITE_BUILD_URL", "CIRCLE_BUILD_URL")
GITHUB = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
# options whose values are not recorded: secrets, and rows that must be forgotten
SECRET = ("--vars", "--args", "--where")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")

Git = Callable[[str], Mapping[str, str]]


def git_of(project: str) -> Mapping[str, str]:
    """``commit``, ``branch`` and ``dirty`` (`yes` or `no`: whether files that git knows differ from
    the commit) of the repository that a directory is in; empty without git, or if git does not
    answer within `GIT_TIMEOUT`.
    """
    # without locks: another git may be at work; without untracked files, which may be millions
    command = ["git", "-C", project, "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    try:
        answer = subprocess.run(
            command,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_TIMEOUT,
            check=True,
        ).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return {}
    headers = (line[2:].partition(" ") for line in answer if line.startswith("# "))
    values = {name: value for name, _, value in headers}
    named = {"commit": values.get("branch.oid", ""), "branch": values.get("branch.head", "")}
    dirty = "yes" if any(not line.startswith("# ") for line in answer) else "no"
    # `(initial)` has no commit yet, `(detached)` no branch
    return {name: "" if text.startswith("(") else text for name, text in named.items()} | {"dirty": dirty}


def author(
    project: str, command: str, environment: Mapping[str, str] = os.environ, git: Git = git_of
) -> dict[str, str]:
    """The ``user``, ``commit``, ``branch``, ``dirty``, ``command`` and, of a CI, its ``link``, as
    far as they are known.
    """
    fields = {"user": user(environment), **git(project)}
    fields["branch"] = fields.get("branch") or _first(environment, BRANCHES)
    fields["command"], fields["link"] = command, _link(environment)
    named = {name: _CONTROL.sub(" ", masked(text)).strip()[:LONGEST] for name, text in fields.items()}
    return {name: text for name, text in named.items() if text}


def user(environment: Mapping[str, str] = os.environ) -> str:
    """`MVSINK_USER`, a CI's user, or that of this process: its number where it has no name, as in
    some containers.
    """
    if named := _first(environment, USERS):
        return named
    with suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return str(os.getuid()) if hasattr(os, "getuid") else "unknown"


def shown_command(program: str, arguments: Sequence[str]) -> str:
    """A command line without the values of the options in `SECRET`.

    >>> shown_command("dbt", ["run", "--vars", "{password: x}", "-s", "a b", "--vars={b: 1}"])
    "dbt run --vars ... -s 'a b' --vars=..."
    """
    words = [
        "..."
        if before in SECRET
        else f"{word.partition('=')[0]}=..."
        if "=" in word and word.partition("=")[0] in SECRET
        else shlex.quote(word)
        for before, word in zip(["", *arguments], arguments)
    ]
    return " ".join([program, *words])


def _first(environment: Mapping[str, str], names: Sequence[str]) -> str:
    return next((environment[name] for name in names if environment.get(name)), "")


def _link(environment: Mapping[str, str]) -> str:
    if all(environment.get(name) for name in GITHUB):
        server, repository, run = (environment[name] for name in GITHUB)
        return f"{server}/{repository}/actions/runs/{run}"
    return _first(environment, LINKS)
