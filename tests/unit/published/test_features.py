"""A feature of Delta's protocol that another tool turned on is turned off by the next publication:
the commits of this package would not respect it.
"""

from __future__ import annotations

from random import Random

import pytest
from deltalake import DeltaTable, TableFeatures

from tests.long.published_tables import History
from tests.support.table_readers import by_deltalake


@pytest.mark.parametrize("feature", [TableFeatures.ChangeDataFeed, TableFeatures.AppendOnly])
@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_feature_of_another_tool_is_turned_off(tmp_path, feature, checkpointed):
    history = History(str(tmp_path / "s"), Random(1))
    history.append()
    history.publish()
    before, rows = DeltaTable(history.table).protocol(), by_deltalake(history.table)
    DeltaTable(history.table).alter.add_feature(feature, allow_protocol_versions_increase=True)
    if checkpointed:
        DeltaTable(history.table).create_checkpoint()
    assert DeltaTable(history.table).protocol() != before
    history.publish()
    assert DeltaTable(history.table).protocol() == before
    assert by_deltalake(history.table) == rows
    version = DeltaTable(history.table).version()
    history.publish()
    assert DeltaTable(history.table).version() == version
