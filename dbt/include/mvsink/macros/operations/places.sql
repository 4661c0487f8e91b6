{# `mvsink watch`: what each of these queries reads, one JSON per line. `request` is JSON: YAML would split some characters of it. #}
{% macro mvsink_places(request) %}
  {%- for query in fromjson(request) -%}
    {{ log(adapter.mv_places(query), info=True) }}
  {%- endfor -%}
{% endmacro %}
