{# `mvsink rename`: has a shard shown by another name. `request` is JSON, of a `RenameRequest`'s parts. #}
{% macro mvsink_rename(request) %}
  {%- set asked = fromjson(request) -%}
  {%- set relation = api.Relation.create(schema=asked.after.schema, identifier=asked.after.identifier) -%}
  {%- do adapter.mv_refuse_in_read_only(relation, 'rename') -%}
  {%- do create_schema(relation.without_identifier()) -%}
  {%- set before = adapter.get_relation(target.database, asked.before.schema, asked.before.identifier) -%}
  {%- set after = adapter.get_relation(target.database, asked.after.schema, asked.after.identifier) -%}
  {%- do adapter.mv_rename(before, after, request) -%}
  {{ log(tojson({'before': before is not none}), info=True) }}
{% endmacro %}
