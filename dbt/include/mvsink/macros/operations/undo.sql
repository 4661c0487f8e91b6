{# `mvsink undo`: takes runs back, or says what that would do, as JSON. `request` is JSON too: YAML would split some characters of it. #}
{% macro mvsink_undo(request) %}
  {%- set asked = fromjson(request) -%}
  {%- set relation = api.Relation.create(schema=asked.schema, identifier=asked.identifier) -%}
  {%- if not asked.dry_run -%}
    {%- do adapter.mv_refuse_in_read_only(relation, 'undo') -%}
  {%- endif -%}
  {%- set existing = adapter.get_relation(target.database, asked.schema, asked.identifier) -%}
  {{ log(adapter.mv_undo(existing or relation, existing, graph.nodes.get(asked.unique_id), request, invocation_id), info=True) }}
{% endmacro %}
