"""How many of this machine's cores Spark has, by its master."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.adapter.dbt_engine import cores_of

MASTERS = {"local": 1, "local[3]": 3, "local[*]": 8, "local[64]": 8, "local[2, 4]": 2, "local[*,4]": 8}
ELSEWHERE = ("", "yarn", "spark://localhost:7077", "k8s://https://x", "local-cluster[2,1,1024]", "<redacted>")


@pytest.mark.parametrize(("master", "cores"), [*MASTERS.items(), *((master, 0) for master in ELSEWHERE)])
def test_the_cores_of_a_master(master, cores):
    assert cores_of(master, 8) == cores
