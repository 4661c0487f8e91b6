{# `mvsink undo`: takes runs back, or says what that would do, as JSON. `request` is JSON too: YAML would split some characters of it. #}
{% macro mvsink_undo(request) %}
  {%- set asked = fromjson(request) -%}
  {%- set relation = api.Relation.create(schema=asked.schema, identifier=asked.identifier) -%}
  {%- if not asked.dry_run -%}
    {%- do adapter.mv_refuse_in_read_only(relation, 'undo') -%}
  {%- endif -%}
  {%- set existing = adapter.get_relation(target.database, asked.schema, asked.identifier) -%}
  {%- set node, audits = graph.nodes.get(asked.unique_id), [] -%}
  {%- for test in adapter.mv_undo_audits(relation, node, request) -%}
    {%- do audits.append((test, get_test_sql(test.sql, test.fail_calc, test.warn_if, test.error_if, test.limit))) -%}
  {%- endfor -%}
  {{ log(adapter.mv_undo(relation, existing, node, request, invocation_id, audits), info=True) }}
{% endmacro %}
