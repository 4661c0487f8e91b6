"""One source, one maintained model, and what a test asks of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dbt.tests.util import relation_from_name, write_file

from dbt.adapters.mvsink.shard import ShardClient, WriteHandle

SOURCE = "select * from values (1, 'a'), (2, 'b'), (3, 'c') as t(id, name)"
MV = "{{ config(materialized='self_correcting_mv') }} select id, name from {{ ref('source_rows') }}"


def configured(**configs):
    """The model with more configs."""
    listed = "".join(f", {key}={value!r}" for key, value in configs.items())
    return MV.replace("_mv')", f"_mv'{listed})")


def responses(project):
    """What the last dbt command got of each model."""
    results = json.loads((Path(project.project_root) / "target" / "run_results.json").read_text())
    return {result["unique_id"].split(".")[-1]: result["adapter_response"] for result in results["results"]}


class Base:
    @pytest.fixture(scope="class")
    def models(self):
        return {"source_rows.sql": SOURCE, "mv.sql": MV}

    @pytest.fixture(autouse=True)
    def fresh(self, project):
        """Each test begins with these files."""
        write_file(SOURCE, project.project_root, "models", "source_rows.sql")
        for name, text in type(self).__dict__.get("START", {"mv.sql": MV}).items():
            write_file(text, project.project_root, "models", name)

    def set_source(self, project, text):
        write_file(text, project.project_root, "models", "source_rows.sql")

    def set_model(self, project, text):
        write_file(text, project.project_root, "models", "mv.sql")

    def rows(self, project, name="mv"):
        return sorted(
            map(
                tuple,
                project.run_sql(f"select * from {relation_from_name(project.adapter, name)}", fetch="all"),
            ),
            key=repr,
        )

    def last(self, project, name="mv"):
        return responses(project)[name]

    def properties(self, project, name="mv"):
        return dict(
            map(tuple, project.run_sql(f"show tblproperties {project.test_schema}.{name}", fetch="all"))
        )

    def uri(self, project, name="mv"):
        return self.properties(project, name)["mvsink.shard_uri"]

    def state(self, project):
        with ShardClient().open_reader(self.uri(project)) as reader:
            return reader.state()

    def writer(self, project):
        """A handle behind the adapter's back."""
        return WriteHandle.from_read(ShardClient().open_reader(self.uri(project)), "test")
