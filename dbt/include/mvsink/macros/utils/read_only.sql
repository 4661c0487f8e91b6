{# In a read-only invocation whatever would be rebuilt is refused; maintained models say what they would write instead. #}
{% macro mvsink_refuse_in_read_only(relation, materialized) -%}
  {%- if var('mvsink_read_only', false) or target.get('read_only', false) -%}
    {%- do adapter.mv_refuse_read_only(relation, materialized) -%}
  {%- endif -%}
{%- endmacro %}
