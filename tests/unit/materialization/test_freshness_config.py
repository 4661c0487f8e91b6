"""The `freshness` config: what dbt keeps of it, what it may be, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.cli.main import dbtRunner

from dbt.adapters.mvsink.exceptions import InvalidOption
from dbt.adapters.mvsink.materialization.options.freshness import with_freshness
from dbt.adapters.mvsink.materialization.options.table import ModelOptions
from dbt.adapters.mvsink.shard_sql.properties import Freshness

HOUR = 3_600_000
ALLOWED = {
    "intervals": ({"warn_after": "1 hour", "error_after": "6 hours"}, (HOUR, 6 * HOUR)),
    "one of them": ({"error_after": "30 minutes"}, (None, HOUR // 2)),
    "dbt's spelling": ({"warn_after": {"count": 1, "period": "hour"}, "error_after": {"count": 2, "period": "day"}}, (HOUR, 48 * HOUR)),
    "no limit": ({"warn_after": None, "error_after": "1 hour"}, (None, HOUR)),
    "beside dbt's own": ({"build_after": {"count": 1, "period": "day"}, "warn_after": "1 hour"}, (HOUR, None)),
    "dbt's own alone": ({"build_after": {"count": 1, "period": "day"}}, (None, None)),
    "none": (None, (None, None)),
}  # fmt: skip


@pytest.mark.parametrize(("value", "limits"), ALLOWED.values(), ids=ALLOWED)
@pytest.mark.parametrize("parse", [ModelOptions.parse, ModelOptions.parse_task])
def test_limits(parse, value, limits):
    assert parse("dev.m", {"freshness": value}).freshness == Freshness(*limits)


REFUSED = {
    "a text": ("1 hour", "a mapping of `warn_after` or `error_after`"),
    "another key": ({"filter": "a > 1", "warn_after": "1 hour"}, "a mapping of `warn_after`"),
    "a number": ({"warn_after": 3600}, "for `warn_after` an interval of at least '1 second'"),
    "too short": ({"error_after": "10 ms"}, "for `error_after` an interval"),
    "months": ({"warn_after": {"count": 1, "period": "month"}}, "minute, hour, day"),
    "half an hour": ({"warn_after": {"count": 0.5, "period": "hour"}}, "for `warn_after`"),
    "an error before the warning": ({"warn_after": "2 hours", "error_after": "1 hour"}, "not below `warn_after`"),
    "Jinja": ({"warn_after": "{{ var('x') }}"}, "without Jinja, or with it in the model's own `config()`"),
    "all of it Jinja": ("{{ var('x') }}", "without Jinja"),
}  # fmt: skip


@pytest.mark.parametrize(("value", "allowed"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_names_what_is_allowed(value, allowed):
    with pytest.raises(InvalidOption) as error:
        ModelOptions.parse("dev.orders", {"freshness": value})
    assert "dev.orders: invalid config `freshness`" in str(error.value)
    assert allowed in str(error.value)


MODELS: dict[str, tuple[str, Any]] = {  # where it is written: the limits
    "in_file": ("freshness={'warn_after': var('w', '1 hour'), 'error_after': '6 hours'}", (HOUR, 6 * HOUR)),
    "in_properties": ("", (2 * HOUR, None)),
    "beside_dbts": ("", (3 * HOUR, None)),
    "in_project": ("", (4 * HOUR, None)),
    "off": ("freshness=none", (None, None)),
    "in_both": ("freshness={'warn_after': '5 hours'}", (5 * HOUR, None)),
}
PROPERTIES = """
models:
  - {name: in_properties, config: {freshness: {warn_after: 2 hours}}}
  - {name: beside_dbts, config: {freshness: {warn_after: 3 hours, build_after: {count: 1, period: day}}}}
  - {name: in_both, config: {freshness: {warn_after: 9 hours}}}
"""


def test_dbt_passes_it_wherever_it_is_written(tmp_path):
    """dbt drops it from a model's config: see the module."""
    (tmp_path / "models").mkdir()
    (tmp_path / "dbt_project.yml").write_text(
        "name: shop\nversion: '1.0'\nprofile: p\nmodels: {+freshness: {warn_after: 4 hours}}\n"
    )
    (tmp_path / "profiles.yml").write_text(
        "p: {target: dev, outputs: {dev: {type: mvsink, schema: s, threads: 2}}}\n"
    )
    (tmp_path / "models" / "schema.yml").write_text(PROPERTIES)
    for name, (config, _) in MODELS.items():
        configs = ", ".join(each for each in ("materialized='self_correcting_mv'", config) if each)
        (tmp_path / "models" / f"{name}.sql").write_text(f"{{{{ config({configs}) }}}} select 1 a")
    where = ["--project-dir", str(tmp_path), "--profiles-dir", str(tmp_path)]
    parsed = dbtRunner().invoke(["--quiet", "parse", *where])
    assert parsed.success, parsed.exception
    read = {
        node.name: ModelOptions.parse("m", with_freshness(node.to_dict(omit_none=False))).freshness
        for node in parsed.result.nodes.values()  # type: ignore[union-attr]
    }
    assert read == {name: Freshness(*limits) for name, (_, limits) in MODELS.items()}
