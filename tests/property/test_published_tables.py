"""Random histories of shards that are published as tables, read after every step; wrong rules are
noticed. `make long LONG=published_tables` runs a thousand.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from pyroaring import BitMap64

from dbt.adapters.mvsink.published import extra_copies, publication, shown_rows
from tests.long.published_tables import History


@pytest.mark.parametrize("seed", range(3))
def test_every_reader_sees_the_shard(seed, tmp_path):
    assert not [each for each in History(str(tmp_path / "s"), Random(seed)).run() if each.startswith("wrong")]


def test_a_column_that_the_query_no_longer_has_stays_in_the_table(tmp_path):
    """`on_schema_change: append_new_columns` keeps it in the shard, and the view shows it."""
    history = History(str(tmp_path / "s"), Random(1))
    history.append()
    history.order = [name for name in history.schema.names if name != "name"]
    history.publish()
    history.order = history.schema.names
    assert not history.difference()


def newest_first(monkeypatch):
    """Records are ranked backwards: with one more hidden than shown, another one stays."""
    ranks = shown_rows._ranks

    def wrong(group):
        rank, order = ranks(group)
        return rank + 1, order

    monkeypatch.setattr(shown_rows, "_ranks", wrong)


def errors_shown(monkeypatch):
    monkeypatch.setattr(shown_rows, "_Positions", _WithoutErrors)


class _WithoutErrors(shown_rows._Positions):
    def bitmaps(self):
        self.parts.pop()  # the errors' are added last
        return super().bitmaps()


def no_copies(monkeypatch):
    monkeypatch.setattr(extra_copies, "rows", lambda *_: iter(()))


def vectors_taken_for_right(monkeypatch):
    """A file that is live is left as it is."""
    monkeypatch.setattr(publication, "_is_shown", lambda file, hidden: file is not None)


def nothing_hidden_of_the_base(monkeypatch):
    shown = shown_rows._result

    def wrong(files, hidden, copies):
        result = shown(files, hidden, copies)
        first = {files[0].path: BitMap64()} if files else {}
        return replace(result, hidden={**result.hidden, **first})

    monkeypatch.setattr(shown_rows, "_result", wrong)


@pytest.mark.parametrize(
    "rule", [newest_first, errors_shown, no_copies, vectors_taken_for_right, nothing_hidden_of_the_base]
)
def test_a_wrong_rule_is_noticed(rule, monkeypatch, tmp_path):
    rule(monkeypatch)
    outcomes = []
    for seed in range(4):  # one history may not meet it
        outcomes += History(str(tmp_path / str(seed)), Random(seed)).run()
        if any(each.startswith("wrong") for each in outcomes):
            return
    raise AssertionError(outcomes)
