"""docs/design/one-change.md shows what the package returns."""

from __future__ import annotations

import re
from pathlib import Path

from dbt.adapters.mvsink.incremental import Analysed, Plan, Sides, analyse, claims, delta

PAGE = Path(__file__).parents[3] / "docs" / "design" / "one-change.md"
COLUMNS = {
    "shop.orders": [("id", "bigint"), ("customer", "bigint"), ("amount", "decimal(10,2)")],
    "shop.customers": [("id", "bigint"), ("region", "string")],
}


def test_the_texts_of_the_page_are_those_of_its_query():
    blocks = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    query, explicit, keys, change = (" ".join(block.split()) for block in blocks)
    analysed = analyse(query, COLUMNS.get)
    assert isinstance(analysed, Analysed)
    assert [claim.explicit for claim in claims(query, analysed)] == [explicit]
    sides = Sides("select * from new", "select * from old", "select * from change")
    plan = delta(analysed, {"shop.orders": sides})
    assert isinstance(plan, Plan) and plan.query is not None and plan.scoped is not None
    assert " ".join((plan.scoped.keys or "").split()) == keys
    assert " ".join(plan.query.split()) == change.replace("<K>", keys)
