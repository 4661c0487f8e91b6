"""Five runs at once on one warm session, beside `plan` and `status`, with kills: a few rounds of
`tests.long.warm_session`.
"""

from __future__ import annotations

import pytest

from tests.support.warm_shop import WarmShop

SEED, ROUNDS = 7, 3


@pytest.mark.timeout(900)
def test_all_is_right_after_every_round(tmp_path):
    shop = WarmShop(tmp_path / "shop", SEED)
    try:
        shop.make()
        assert [shop.round(kills) for kills in range(ROUNDS)] == ["right"] * ROUNDS
    finally:
        shop.end()
