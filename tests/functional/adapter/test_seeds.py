"""Seeds. Text is STRING in Spark, and dropping a table drops no view that reads it."""

from __future__ import annotations

from codecs import BOM_UTF8
from pathlib import Path

import pytest
from dbt.tests.adapter.simple_seed import fixtures, seeds
from dbt.tests.adapter.simple_seed.test_seed import (
    BaseBasicSeedTests,
    BaseSeedConfigFullRefreshOff,
    BaseSeedConfigFullRefreshOn,
    BaseSeedCustomSchema,
    BaseSeedParsing,
    BaseSeedSpecificFormats,
    BaseSeedWithEmptyDelimiter,
    BaseSeedWithUniqueDelimiter,
    BaseSeedWithWrongDelimiter,
    BaseSimpleSeedEnabledViaConfig,
    BaseSimpleSeedWithBOM,
    BaseTestEmptySeed,
)
from dbt.tests.adapter.simple_seed.test_seed_type_override import BaseSimpleSeedColumnOverride
from dbt.tests.util import run_dbt

from tests.functional.adapter.spelling import SparkScripts


class TestBasicSeedTests(SparkScripts, BaseBasicSeedTests):
    def test_simple_seed_full_refresh_flag(self, project):
        """The view that reads the seed stays: Spark's DROP TABLE does not cascade."""
        self._build_relations_for_test(project)
        self._check_relation_end_state(run_dbt(["seed", "--full-refresh"]), project, exists=True)


class TestSeedConfigFullRefreshOn(SparkScripts, BaseSeedConfigFullRefreshOn):
    def test_simple_seed_full_refresh_config(self, project):
        """The view that reads the seed stays: Spark's DROP TABLE does not cascade."""
        self._build_relations_for_test(project)
        self._check_relation_end_state(run_dbt(["seed"]), project, exists=True)


class TestSeedConfigFullRefreshOff(SparkScripts, BaseSeedConfigFullRefreshOff):
    pass


class TestSeedCustomSchema(SparkScripts, BaseSeedCustomSchema):
    pass


class TestSeedWithUniqueDelimiter(SparkScripts, BaseSeedWithUniqueDelimiter):
    pass


class TestSeedWithWrongDelimiter(SparkScripts, BaseSeedWithWrongDelimiter):
    pass


class TestSeedWithEmptyDelimiter(SparkScripts, BaseSeedWithEmptyDelimiter):
    pass


class TestSimpleSeedEnabledViaConfig(BaseSimpleSeedEnabledViaConfig):
    pass


class TestSeedParsing(SparkScripts, BaseSeedParsing):
    pass


class TestSimpleSeedWithBOM(SparkScripts, BaseSimpleSeedWithBOM):
    @pytest.fixture(scope="class", autouse=True)
    def setUp(self, project):
        """The file with the mark is made here, not kept: an editor would lose the mark."""
        project.run_sql(seeds.seeds__expected_sql)
        path = Path(project.project_root) / "seeds" / "seed_bom.csv"
        path.write_bytes(BOM_UTF8 + seeds.seed__actual_csv.encode())


class TestSeedSpecificFormats(BaseSeedSpecificFormats):
    @pytest.fixture(scope="class")
    def properties(self):
        """The file has dots in its name; the table must not, in Spark's metastore."""
        return {"dots.yml": "seeds: [{name: seed.with.dots, config: {alias: seed_with_dots}}]"}


class TestEmptySeed(BaseTestEmptySeed):
    pass


class TestSimpleSeedColumnOverride(BaseSimpleSeedColumnOverride):
    @pytest.fixture(scope="class")
    def models(self):
        """Spark's names of the types."""
        properties = fixtures.properties__schema_yml
        for theirs, ours in (
            ("timestamp without time zone", "timestamp"),
            ("type: text", "type: string"),
            ("integer", "int"),
        ):
            properties = properties.replace(theirs, ours)
        return {"schema.yml": properties}

    @staticmethod
    def seed_enabled_types():
        """Spark's names of the types."""
        return {"seed_id": "string", "birthday": "date"}

    @staticmethod
    def seed_tricky_types():
        """Spark's names of the types."""
        return {"seed_id_str": "string", "looks_like_a_bool": "string", "looks_like_a_date": "string"}
