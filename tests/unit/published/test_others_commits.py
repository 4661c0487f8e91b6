"""How many commits of other tools a publication counts as undone: those that it takes back."""

from __future__ import annotations

from random import Random

import pytest
from deltalake import DeltaTable

from dbt.adapters.mvsink.published import publish
from tests.long.published_tables import History


def owner(table):
    table.alter.set_table_properties({"owner": "me"}, raise_if_not_exists=False)


def retention(table):
    """One that a publication sets itself."""
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 1 hours"})


def comment(table):
    table.alter.set_table_description("what it is")


def delete(table):
    table.delete()


CASES = {  # commits, how many of them are undone, and is the owner still there
    "a property": ([owner], 0, True),
    "a comment": ([comment], 0, False),
    "a property that decides how the table is kept": ([retention], 1, False),
    "rows": ([delete], 1, False),
    "a property, then rows": ([owner, delete], 1, True),
    "rows, then two that stay": ([delete, owner, comment], 1, True),
    "all of them": ([owner, delete, comment, retention], 2, True),
}


@pytest.mark.parametrize("checkpointed", [False, True], ids=["commits", "in a checkpoint"])
@pytest.mark.parametrize("own", [False, True], ids=["the shard is as it was", "with rows of its own"])
@pytest.mark.parametrize(("commits", "undone", "kept"), CASES.values(), ids=CASES)
def test_only_what_is_taken_back_is_undone(tmp_path, commits, undone, kept, own, checkpointed):
    history = History(str(tmp_path / "s"), Random(1))
    history.append()
    history.publish()
    for commit in commits:
        commit(DeltaTable(history.table))
    if checkpointed:
        DeltaTable(history.table).create_checkpoint()
    if own:
        history.append()
    done = publish(history.handle, history.order)
    assert (done.changed, done.undone) == (True, undone)
    assert ("owner" in DeltaTable(history.table).metadata().configuration) == kept
    assert publish(history.handle, history.order).undone == 0


def test_a_column_of_the_model_s_is_no_commit_of_others(tmp_path):
    """The description changes in the same commit, and the property stays."""
    history = History(str(tmp_path / "s"), Random(1))
    history.append()
    history.publish()
    owner(DeltaTable(history.table))
    done = publish(history.handle, history.order[::-1])
    assert (done.changed, done.undone) == (True, 0)
