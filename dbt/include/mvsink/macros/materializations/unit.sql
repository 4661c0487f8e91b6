{#
  A unit test of a continual task: the fixtures are the change at one time, `expect` is the output after all statements. For every other
  model dbt's own materialization runs the model's text as a query.
#}
{% materialization unit, adapter='mvsink' %}
  {%- if not adapter.mv_is_task(model.tested_node_unique_id) -%}
    {{ return(context['materialization_unit_default']()) }}
  {%- endif -%}
  {%- set so_far = adapter.mv_unit_output(model.unique_id) -%}
  {%- set actual = adapter.mv_unit_query(config, model.tested_node_unique_id, so_far) -%}

  {%- set expected_rows = config.get('expected_rows') -%}
  {%- set names = expected_rows[0].keys() if expected_rows | length > 0 else actual.types.keys() -%}
  {%- set expected_sql = config.get('expected_sql') or get_expected_sql(expected_rows, actual.types, actual.quoted) -%}
  {%- set quoted = [] -%}
  {%- for name in names -%}
    {%- do quoted.append(actual.quoted[name | lower]) -%}
  {%- endfor -%}
  {% call statement('main', fetch_result=True) -%}
    {{ get_unit_test_sql(actual.sql, expected_sql, quoted) }}
  {%- endcall %}
  {{ return({'relations': []}) }}
{% endmaterialization %}


{# dbt's, in which rows may have a `_mv_diff`: how many copies were added, or, if negative, removed. #}
{% macro get_fixture_sql(rows, column_name_to_data_types) %}
  {%- set like = defer_relation if (defer_relation and not load_relation(this)) else this -%}
  {{ mvsink_fixture(rows, like, column_name_to_data_types) }}
{%- endmacro %}


{# dbt's, in which a value is what YAML or CSV has, whatever characters are in it, also within structs, arrays and maps. #}
{% macro format_row(row, column_name_to_data_types) %}
  {%- set formatted = {} -%}
  {%- for column_name, value in row.items() -%}
    {%- set name = column_name | lower -%}
    {%- if name not in column_name_to_data_types -%}
      {%- set fixture_name = "expected output" if model.resource_type == 'unit_test' else "'" ~ model.name ~ "'" -%}
      {{ exceptions.raise_compiler_error(
          "Invalid column name: '" ~ name ~ "' in unit test fixture for " ~ fixture_name ~ "."
          "\nAccepted columns for " ~ fixture_name ~ " are: " ~ (column_name_to_data_types.keys() | list)
      ) }}
    {%- endif -%}
    {%- do formatted.update({name: adapter.mv_fixture_value(column_name, value, column_name_to_data_types[name])}) -%}
  {%- endfor -%}
  {{ return(formatted) }}
{% endmacro %}


{# A task's own output may not exist yet; then the rows of `this` are typed in the adapter, and this is never run. #}
{% macro mvsink_fixture(rows, relation, types=none) %}
  {%- set types, quoted, nothing = dict(types or {}), {}, {} -%}
  {%- for column in adapter.get_columns_in_relation(relation) -%}
    {%- do types.setdefault(column.name | lower, column.data_type) -%}
    {%- do quoted.update({column.name | lower: column.quoted}) -%}
  {%- endfor -%}
  {%- if not types and adapter.mv_is_task(model.unique_id) -%}
    {{ return("select raise_error('" ~ relation ~ " does not exist yet, so the types of its rows are not known') as _mv_nothing") }}
  {%- endif -%}
  {%- if not types -%}
    {{ exceptions.raise_compiler_error("Not able to get columns for unit test '" ~ model.name ~ "' from relation " ~ relation ~ " because the relation doesn't exist") }}
  {%- endif -%}
  {%- for name, type in types.items() -%}
    {%- do nothing.update({name: safe_cast('null', type) | trim}) -%}
  {%- endfor -%}
  {%- for row in rows if '_mv_diff' in row -%}
    {%- do types.update({'_mv_diff': 'bigint'}) -%}
    {%- do nothing.update({'_mv_diff': '1L'}) -%}
  {%- endfor -%}
-- Fixture for {{ model.name }}
  {%- do validate_fixture_rows(rows, none) -%}
  {%- for row in rows %}
    {%- set values = dict(nothing) -%}
    {%- do values.update(format_row(row, types)) %}
select {% for name, value in values.items() %}{{ value }} as {{ quoted.get(name, adapter.quote(name)) }}{{ ', ' if not loop.last }}{% endfor %}
    {{- '\nunion all' if not loop.last }}
  {%- else %}
select {% for name, value in nothing.items() %}{{ value }} as {{ quoted.get(name, adapter.quote(name)) }}{{ ', ' if not loop.last }}{% endfor %} limit 0
  {%- endfor %}
{%- endmacro %}
