"""More of dbt's own families, as they stand."""

from __future__ import annotations

BASES = [value for name, value in list(globals().items()) if name.startswith("Base")]

for base in BASES:
    globals()[f"Test{base.__name__.removeprefix('Base')}"] = type(f"Test{base.__name__.removeprefix('Base')}", (base,), {})
    del globals()[base.__name__]
del base
