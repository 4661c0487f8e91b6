"""Writes what the table of options says: tables in docs/configuration.md, and the JSON schema.

Run ``python -m docs.generate`` after changing the table; a unit test checks both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dbt.adapters.mvsink.materialization.options.table import (
    INSTEAD,
    MATERIALIZATIONS,
    NOT_OFFERED,
    OPTIONS,
    Option,
)

PAGE = Path(__file__).parent / "configuration.md"
SCHEMA = Path(__file__).parent / "schema" / "mvsink-models.json"
JINJA = {"type": "string", "pattern": r"\{\{"}


def page(text: str) -> str:
    """``text`` with the generated lines between its markers."""
    for materialization in MATERIALIZATIONS:
        begin, end = (f"<!-- {word}: options of {materialization} -->" for word in ("begin", "end"))
        between = re.compile(f"(?<={re.escape(begin)}\n).*?(?={re.escape(end)})", re.DOTALL)
        table = "".join(f"{line}\n" for line in _table(materialization))
        text, count = between.subn(table.replace("\\", r"\\"), text)
        assert count == 1, f"{PAGE.name}: {begin}"
    return text


def _table(materialization: str) -> Iterator[str]:
    yield "| config | values | default | meaning |"
    yield "|---|---|---|---|"
    for option in OPTIONS.values():
        if materialization in option.of:
            keys = " or ".join(f"`{key}`" for key in option.keys)
            yield f"| {keys} | {option.kind.allowed} | {option.words} | {option.doc} |"


def schema() -> dict[str, Any]:
    """A JSON schema of dbt's properties files, as far as our configs go."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dbt-mvsink: the configs of maintained models in dbt's properties files",
        "type": "object",
        "properties": {
            "models": {
                "type": "array",
                "items": {"type": "object", "properties": {"config": {"$ref": "#/$defs/config"}}},
            }
        },
        "$defs": {
            "config": {
                "type": "object",
                "properties": {"materialized": {"type": "string"}},
                "allOf": [
                    {
                        "if": {
                            "properties": {"materialized": {"const": materialization}},
                            "required": ["materialized"],
                        },
                        "then": {"$ref": f"#/$defs/{materialization}"},
                    }
                    for materialization in MATERIALIZATIONS
                ],
            },
            **{each: {"properties": dict(_properties(each))} for each in MATERIALIZATIONS},
        },
    }


def _properties(materialization: str) -> Iterator[tuple[str, Any]]:
    for option in OPTIONS.values():
        for key in option.keys:
            if materialization in option.of:
                yield key, _property(option)
            else:
                yield key, {"not": {}, "description": f"Only a {option.of[0]} has this config."}
    for key, words in {**INSTEAD[materialization], **NOT_OFFERED}.items():
        yield key, {"not": {}, "description": words}


def _property(option: Option[Any]) -> dict[str, Any]:
    allowed = [dict(option.kind.schema), JINJA, {"type": "null"}]
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", option.doc)
    words = f"{plain}\nAllowed: {option.kind.allowed}. Default: {option.words}."
    return {"description": words, "anyOf": allowed}


def schema_text() -> str:
    """The schema as its file holds it."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    SCHEMA.write_text(schema_text())
