"""Two processes that start Spark with packages do not fill Ivy's cache at once."""

from __future__ import annotations

import threading

import pytest

from dbt.adapters.mvsink.connection import embedded
from dbt.adapters.mvsink.connection.embedded import downloading

PACKAGES = {"spark.jars.packages": "group:artifact:1"}


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def enters(settings, seconds):
    """Whether a start with these settings begins within ``seconds``; it ends at once."""
    entered = threading.Event()

    def start():
        with downloading(settings):
            entered.set()

    threading.Thread(target=start, daemon=True).start()
    return entered.wait(seconds)


def test_a_second_start_with_packages_waits_for_the_first():
    with downloading(PACKAGES):
        assert not enters(PACKAGES, 0.3)
        assert enters({}, 30), "nothing is downloaded"
    assert enters(PACKAGES, 30)


def test_a_start_that_fails_keeps_no_other_waiting():
    with pytest.raises(RuntimeError), downloading(PACKAGES):
        raise RuntimeError("no Java")
    assert enters(PACKAGES, 30)


def test_where_no_lock_can_be_had_it_starts_all_the_same(monkeypatch, home):
    home.write_text("in the way")
    with downloading(PACKAGES):
        assert enters(PACKAGES, 30)

    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(embedded, "cache_directory", no_home)
    assert enters(PACKAGES, 30)
