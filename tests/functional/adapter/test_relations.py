"""What dbt knows of relations: its cache, their types, schemas, aliases, comments of queries, and
runs with nothing or at once.
"""

from __future__ import annotations

import pytest
from dbt.tests.adapter.aliases import fixtures as aliases
from dbt.tests.adapter.aliases.test_aliases import (
    BaseAliasErrors,
    BaseAliases,
    BaseSameAliasDifferentDatabases,
    BaseSameAliasDifferentSchemas,
)
from dbt.tests.adapter.caching.test_caching import (
    BaseCachingLowercaseModel,
    BaseCachingSelectedSchemaOnly,
    BaseCachingUppercaseModel,
    BaseNoPopulateCache,
)
from dbt.tests.adapter.concurrency.test_concurrency import BaseConcurrency
from dbt.tests.adapter.empty.test_empty import (
    BaseTestEmpty,
    BaseTestEmptyInlineSourceRef,
    BaseTestEmptySeedFlag,
    MetadataWithEmptyFlag,
)
from dbt.tests.adapter.query_comment.test_query_comment import (
    BaseEmptyQueryComments,
    BaseMacroArgsQueryComments,
    BaseMacroInvalidQueryComments,
    BaseMacroQueryComments,
    BaseNullQueryComments,
    BaseQueryComments,
)
from dbt.tests.adapter.relations.test_changing_relation_type import BaseChangeRelationTypeValidator
from dbt.tests.adapter.relations.test_dropping_schema_named import BaseDropSchemaNamed
from dbt.tests.util import get_relation_columns, run_dbt

from tests.functional.adapter.spelling import Delta


class SparkCaching:
    def run_and_inspect_cache(self, project, run_args=None):
        """As the base, but a Spark relation has no database to compare in lower case."""
        names = []
        for _ in range(2):
            run_dbt(run_args)
            (relation,) = project.adapter.cache.relations.values()
            assert relation.database is None
            assert relation.schema == project.test_schema == project.test_schema.lower()
            names.append((relation.schema, relation.identifier.lower()))
        assert names[0] == names[1]


class TestCachingLowercaseModel(SparkCaching, BaseCachingLowercaseModel):
    pass


class TestCachingUppercaseModel(SparkCaching, BaseCachingUppercaseModel):
    pass


class TestCachingSelectedSchemaOnly(SparkCaching, BaseCachingSelectedSchemaOnly):
    pass


class TestNoPopulateCache(SparkCaching, BaseNoPopulateCache):
    pass


class TestConcurrency(BaseConcurrency):
    pass


class TestChangeRelationTypeValidator(BaseChangeRelationTypeValidator):
    pass


class TestDropSchemaNamed(BaseDropSchemaNamed):
    pass


class SparkAliases:
    @pytest.fixture(scope="class")
    def macros(self):
        """STRING for TEXT."""
        return {
            "cast.sql": aliases.MACROS__CAST_SQL.replace("::text", "::string"),
            "expect_value.sql": aliases.MACROS__EXPECT_VALUE_SQL,
        }


class TestAliases(SparkAliases, BaseAliases):
    pass


class TestAliasErrors(SparkAliases, BaseAliasErrors):
    pass


class TestSameAliasDifferentSchemas(SparkAliases, BaseSameAliasDifferentSchemas):
    pass


class TestSameAliasDifferentDatabases(SparkAliases, BaseSameAliasDifferentDatabases):
    pass


class TestEmpty(BaseTestEmpty):
    pass


class TestEmptyInlineSourceRef(BaseTestEmptyInlineSourceRef):
    pass


class TestEmptySeedFlag(BaseTestEmptySeedFlag):
    """`dbt seed --empty` comes with dbt 1.12; until then `dbt build --empty` of the seed is the
    same.
    """

    def test_seed_empty_creates_table_with_zero_rows(self, project):
        run_dbt(["build", "--empty", "--select", "raw_seed"])
        self.assert_row_count(project, "raw_seed", 0)

    def test_seed_empty_preserves_column_types(self, project):
        run_dbt(["build", "--empty", "--select", "raw_seed"])
        before = get_relation_columns(project.adapter, "raw_seed")
        run_dbt(["seed", "--full-refresh"])
        self.assert_row_count(project, "raw_seed", 2)
        assert get_relation_columns(project.adapter, "raw_seed") == before


class TestMetadataWithEmptyFlag(Delta, MetadataWithEmptyFlag):
    @pytest.fixture(scope="class")
    def project_files(self, project_files, project_root):
        """VARCHAR takes a length in Spark, and dbt-spark refuses to drop a column."""
        for path in (project_root / "models").listdir():
            path.write(
                path.read()
                .replace('"varchar"', '"string"')
                .replace("{% do alter_relation_add_remove_columns(my_seed, none, [my_column]) %}", "")
            )


class TestQueryComments(BaseQueryComments):
    pass


class TestMacroQueryComments(BaseMacroQueryComments):
    pass


class TestMacroArgsQueryComments(BaseMacroArgsQueryComments):
    pass


class TestMacroInvalidQueryComments(BaseMacroInvalidQueryComments):
    pass


class TestNullQueryComments(BaseNullQueryComments):
    pass


class TestEmptyQueryComments(BaseEmptyQueryComments):
    pass
