{# `mvsink import --drop-old`: drops the table that a model was imported from, and nothing else of that name. #}
{% macro mvsink_drop_imported(schema, identifier) %}
  {%- set relation = api.Relation.create(schema=schema, identifier=identifier) -%}
  {%- do adapter.mv_refuse_in_read_only(relation, 'drop') -%}
  {%- set table = adapter.get_relation(target.database, schema, identifier) -%}
  {%- if table is none -%}
    {{ log("there is no table " ~ schema ~ "." ~ identifier ~ " any more", info=True) }}
  {%- elif table.is_view or adapter.mv_is_shard(table) -%}
    {%- do adapter.mv_refuse(schema ~ "." ~ identifier ~ " is not the table that was imported, and stays") -%}
  {%- else -%}
    {%- do adapter.drop_relation(table) -%}
    {{ log("dropped the table " ~ schema ~ "." ~ identifier, info=True) }}
  {%- endif -%}
{% endmacro %}
