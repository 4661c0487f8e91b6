{# A view may be a published shard: its shard is marked dropped, so that the next run starts a new generation. #}
{% macro mvsink__drop_relation(relation) -%}
  {%- if relation.type == 'view' -%}
    {%- do adapter.mv_mark_dropped(relation) -%}
  {%- endif -%}
  {{ return(spark__drop_relation(relation)) }}
{%- endmacro %}
