{# `mvsink purge`: rows leave a shard for good; the answer is JSON. `request` is JSON too: YAML would split some characters of it. #}
{% macro mvsink_purge(request) %}
  {%- set asked = fromjson(request) -%}
  {%- set relation = api.Relation.create(schema=asked.schema, identifier=asked.identifier) -%}
  {%- if not asked.dry_run -%}
    {%- do adapter.mv_refuse_in_read_only(relation, 'purge') -%}
  {%- endif -%}
  {%- set existing = adapter.get_relation(target.database, asked.schema, asked.identifier) -%}
  {{ log(adapter.mv_purge(relation, existing, request, invocation_id), info=True) }}
{% endmacro %}
