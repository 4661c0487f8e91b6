{# dbt-spark gives the raw rows of DESCRIBE, which have no `name`: `hard_deletes: new_record` lost every value of a deleted row. #}
{% macro mvsink__get_columns_in_relation(relation) -%}
  {{ return(adapter.get_columns_in_relation(relation)) }}
{%- endmacro %}


{# `render`: with `--empty` a relation's text is a subquery, which cannot be described or altered. #}
{% macro mvsink__get_columns_in_relation_raw(relation) -%}
  {%- call statement('get_columns_in_relation_raw', fetch_result=True) -%}
    describe extended {{ relation.render() }}
  {%- endcall -%}
  {{ return(load_result('get_columns_in_relation_raw').table) }}
{%- endmacro %}


{% macro mvsink__alter_column_type(relation, column_name, new_column_type) -%}
  {%- call statement('alter_column_type') -%}
    alter table {{ relation.render() }} alter column {{ column_name }} type {{ new_column_type }}
  {%- endcall -%}
{%- endmacro %}


{# A snapshot with a list of unique keys: dbt-spark adds its helper columns to the snapshot, and the next run finds them twice. #}
{% macro mvsink__create_columns(relation, columns) -%}
  {%- set kept = [] -%}
  {%- for column in columns if not column.name.lower().startswith('dbt_unique_key') -%}
    {%- do kept.append(column) -%}
  {%- endfor -%}
  {{ return(spark__create_columns(relation, kept)) }}
{%- endmacro %}


{# A contract's columns are compared with the query's as Spark resolves names, where case does not count: dbt's messages have them so, too. #}
{% macro mvsink__format_column(column) -%}
  {%- set name = column.column | lower -%}
  {{ return({'name': name, 'data_type': column.dtype, 'formatted': name ~ ' ' ~ column.dtype}) }}
{%- endmacro %}
