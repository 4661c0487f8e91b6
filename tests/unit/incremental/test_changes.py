"""The rules over tiny databases: the pairs of query and change in `tests/fixtures/incremental`."""

from __future__ import annotations

import pytest

from tests.support.incremental_rules import FILES, cases, check

CASES = {
    f"{path.stem}: {name}": case
    for path in sorted(FILES.glob("*.sql"))
    for name, case in cases(path.stem).items()
}


@pytest.mark.parametrize("name", CASES)
def test_the_change(name):
    check(CASES[name])
