{# What `persist_docs` writes: dbt-spark's, in which a description may have any characters. #}
{% macro mvsink__comment_clause() %}
  {%- set wanted = config.get('persist_docs', {}) -%}
  {%- if wanted is not mapping -%}
    {{ return(spark__comment_clause()) }}
  {%- endif -%}
  {%- if wanted.get('relation', false) -%}
    comment {{ adapter.mv_literal(model.description) }}
  {%- endif -%}
{%- endmacro %}


{% macro get_column_comment_sql(column_name, column_dict) -%}
  {%- set description = column_dict[column_name]['description'] if column_name in column_dict else '' -%}
  {{ adapter.quote(column_name) }}{{ ' comment ' ~ adapter.mv_literal(description) if description }}
{%- endmacro %}


{% macro mvsink__alter_column_comment(relation, column_dict) %}
  {%- if config.get('file_format') in ['delta', 'hudi', 'iceberg'] -%}
    {%- for name, column in column_dict.items() -%}
      {%- set quoted = adapter.quote(name) if column['quote'] else name -%}
      {%- do run_query(
        'alter table ' ~ relation ~ (' alter' if relation.is_iceberg else ' change') ~ ' column ' ~ quoted
        ~ ' comment ' ~ adapter.mv_literal(column['description'])
      ) -%}
    {%- endfor -%}
  {%- endif -%}
{%- endmacro %}
