"""Packages of macros as dbt_utils and its like are written: dispatch, and what they call on Spark,
over a `self_correcting_mv`, a continual task and a view.
"""

from __future__ import annotations

import pytest
from dbt.tests.util import run_dbt

SOURCES = ("orders", "task", "plain")
# `mvsink__` comes before `spark__`, and that before `default__`: one macro for each number of them
DISPATCHED = """
{% macro of_all() %}{{ return(adapter.dispatch('of_all', 'kit')()) }}{% endmacro %}
{% macro default__of_all() %}default{% endmacro %}
{% macro spark__of_all() %}spark{% endmacro %}
{% macro mvsink__of_all() %}mvsink{% endmacro %}

{% macro of_two() %}{{ return(adapter.dispatch('of_two', 'kit')()) }}{% endmacro %}
{% macro default__of_two() %}default{% endmacro %}
{% macro spark__of_two() %}spark{% endmacro %}

{% macro of_one() %}{{ return(adapter.dispatch('of_one', 'kit')()) }}{% endmacro %}
{% macro default__of_one() %}default{% endmacro %}

{% macro overridden() %}{{ return(adapter.dispatch('overridden', 'kit')()) }}{% endmacro %}
{% macro default__overridden() %}default{% endmacro %}
{% macro spark__overridden() %}spark{% endmacro %}
"""
# of the columns of a relation: those but some, a key, several relations in one
RELATIONS = """
{% macro star(relation, except=[]) %}
  {%- set names = [] -%}
  {%- for column in adapter.get_columns_in_relation(relation) if column.name not in except -%}
    {%- do names.append(adapter.quote(column.name)) -%}
  {%- endfor -%}
  {{ return(names | join(', ')) }}
{% endmacro %}

{% macro surrogate_key(names) %}
  {%- set parts = [] -%}
  {%- for name in names -%}
    {%- do parts.append("coalesce(cast(" ~ name ~ " as " ~ dbt.type_string() ~ "), '_null_')") -%}
    {%- if not loop.last %}{% do parts.append("'-'") %}{% endif -%}
  {%- endfor -%}
  {{ return(dbt.hash(dbt.concat(parts))) }}
{% endmacro %}

{% macro union_relations(relations) %}
  {%- set types = {} -%}
  {%- for relation in relations -%}
    {%- for column in adapter.get_columns_in_relation(relation) -%}
      {%- do types.update({column.name: column.data_type}) -%}
    {%- endfor -%}
  {%- endfor -%}
  {%- for relation in relations -%}
    {%- set own = adapter.get_columns_in_relation(relation) | map(attribute='name') | list -%}
    select '{{ relation.identifier }}' as origin
    {%- for name, type in types.items() %}, cast({{ name if name in own else 'null' }} as {{ type }}) as {{ name }}
    {%- endfor %} from {{ relation }}
    {{- ' union all ' if not loop.last }}
  {%- endfor -%}
{% endmacro %}

{% test spans_at_most(model, column_name, days) %}
  select 1 from {{ model }} having {{ dbt.datediff('min(' ~ column_name ~ ')', 'max(' ~ column_name ~ ')', 'day') }} > {{ days }}
{% endtest %}
"""
ORDERS = """{{ config(materialized='self_correcting_mv') }}
select id, label, cast(day as date) as day from values (1, 'a-x', '2026-01-30'), (2, 'b-y', '2026-02-02'), (3, null, '2026-02-02') t(id, label, day)"""
TASK = """{{ config(materialized='continual_task') }}
on input {{ ref('orders') }} as (insert into {{ this }} select id, label, day from {{ ref('orders') }})"""
CALLS = """{{ config(materialized='self_correcting_mv') }}
select id, {{ dbt.split_part('label', "'-'", 2) }} as part, {{ dbt.safe_cast("'7'", dbt.type_int()) }} as seven,
  {{ dbt.datediff('day', dbt.dateadd('day', 3, 'day'), 'day') }} as days, {{ kit.surrogate_key(['id', 'label']) }} as k
from {{ ref('%s') }}"""
LISTED = """{{ config(materialized='self_correcting_mv') }}
select day, {{ dbt.listagg('id', "'+'") }} as ids from {{ ref('%s') }} group by day"""
UNION = """{{ config(materialized='self_correcting_mv') }}
-- depends_on: {{ ref('orders') }} {{ ref('task') }} {{ ref('other') }}
{{ kit.union_relations([ref('orders'), ref('task'), ref('other')]) if execute else 'select 1 as one' }}"""
STAR = """{{ config(materialized='self_correcting_mv') }}
select {{ kit.star(ref('%s'), except=['label']) if execute else '1' }} from {{ ref('%s') }}"""
TESTS = """
models:
""" + "".join(
    f"""  - name: {name}
    columns:
      - {{name: day, data_tests: [kit.spans_at_most: {{arguments: {{days: {days}}}}}]}}
"""
    for name, days in zip(SOURCES, (3, 3, 2))
)


@pytest.fixture(scope="class")
def built(project):
    run_dbt(["deps"])
    run_dbt(["run"])
    return project


class TestPackages:
    @pytest.fixture(scope="class")
    def packages(self, project_root):
        """A package in a directory of the project, as `dbt deps` installs it."""
        kit = project_root.mkdir("kit")
        kit.join("dbt_project.yml").write("name: kit\nversion: '1.0'\nconfig-version: 2\n")
        kit.join("macros").mkdir()
        kit.join("macros", "dispatched.sql").write(DISPATCHED)
        kit.join("macros", "relations.sql").write(RELATIONS)
        return {"packages": [{"local": "kit"}]}

    @pytest.fixture(scope="class")
    def project_config_update(self):
        """The project's own macros come before the package's, as dbt_utils' users write it."""
        return {"dispatch": [{"macro_namespace": "kit", "search_order": ["test", "kit"]}]}

    @pytest.fixture(scope="class")
    def macros(self):
        return {"own.sql": "{% macro mvsink__overridden() %}project{% endmacro %}"}

    @pytest.fixture(scope="class")
    def models(self):
        return {
            "orders.sql": ORDERS,
            "task.sql": TASK,
            "plain.sql": "{{ config(materialized='view') }} select * from {{ ref('orders') }}",
            "other.sql": "{{ config(materialized='view') }} select 9 as id, 1.5D as price",
            "united.sql": UNION,
            "tests.yml": TESTS,
            **{f"calls_{name}.sql": CALLS % name for name in SOURCES},
            **{f"listed_{name}.sql": LISTED % name for name in SOURCES},
            **{f"star_{name}.sql": STAR % (name, name) for name in SOURCES},
        }

    @pytest.mark.parametrize(
        ("macro", "chosen"),
        [("of_all", "mvsink"), ("of_two", "spark"), ("of_one", "default"), ("overridden", "project")],
    )
    def test_dispatch_prefers_mvsink_then_spark_then_default(self, built, macro, chosen):
        shown = run_dbt(["show", "--inline", f"select '{{{{ kit.{macro}() }}}}' as chosen"])
        assert [tuple(row) for row in shown.results[0].agate_table.rows] == [(chosen,)]

    @pytest.mark.parametrize("name", SOURCES)
    def test_cross_database_macros(self, built, name):
        rows = built.run_sql(
            f"select id, part, seven, days, k = md5(concat(id, '-', coalesce(label, '_null_'))) from"
            f" {{schema}}.calls_{name} join {{schema}}.orders using (id) order by id",
            fetch="all",
        )
        assert [tuple(row) for row in rows] == [
            (1, "x", 7, 3, True),
            (2, "y", 7, 3, True),
            (3, None, 7, 3, True),
        ]
        listed = built.run_sql(f"select ids from {{schema}}.listed_{name} order by day", fetch="all")
        assert [sorted(row[0].split("+")) for row in listed] == [["1"], ["2", "3"]]

    @pytest.mark.parametrize("name", SOURCES)
    def test_columns_of_a_relation_are_those_of_the_model(self, built, name):
        with built.adapter.connection_named("test"):
            relation = built.adapter.get_relation(None, built.test_schema, name)
            columns = built.adapter.get_columns_in_relation(relation)
            star = built.adapter.get_columns_in_relation(
                built.adapter.get_relation(None, built.test_schema, f"star_{name}")
            )
        assert [(column.name, column.dtype) for column in columns] == [
            ("id", "int"),
            ("label", "string"),
            ("day", "date"),
        ]
        assert [column.name for column in star] == ["id", "day"]

    def test_relations_of_all_kinds_in_one(self, built):
        rows = built.run_sql(
            "select origin, count(*), count(label), sum(price) from {schema}.united group by 1 order by 1",
            fetch="all",
        )
        assert [tuple(row) for row in rows] == [
            ("orders", 3, 2, None),
            ("other", 1, 0, 1.5),
            ("task", 3, 2, None),
        ]

    def test_a_generic_test_of_a_package(self, built):
        results = run_dbt(["test"], expect_pass=False)
        assert {result.node.attached_node.split(".")[-1]: result.status for result in results} == {
            "orders": "pass",
            "task": "pass",
            "plain": "fail",
        }
