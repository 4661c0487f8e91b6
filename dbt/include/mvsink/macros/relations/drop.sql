{# What may be a published shard: its shard is marked dropped, so that the next run starts a new generation. #}
{% macro mvsink__drop_relation(relation) -%}
  {%- do adapter.mv_mark_dropped(relation) -%}
  {{ return(spark__drop_relation(relation)) }}
{%- endmacro %}


{# Dropping a schema marks each of its shards dropped, as dropping their views would. #}
{% macro mvsink__drop_schema(relation) -%}
  {%- set warnings = adapter.mv_mark_schema_dropped(relation) -%}
  {%- call statement('drop_schema') -%}
    drop schema if exists {{ relation.without_identifier() }} cascade
  {%- endcall -%}
  {%- do adapter.mv_warn(warnings) -%}
{%- endmacro %}
