{# `mvsink plan --against`: what runs would do to these shards of the other target, one JSON per line. `request` is JSON: YAML would split some characters of it. #}
{% macro mvsink_judge(request) %}
  {%- for shard in fromjson(request) -%}
    {%- set relation = api.Relation.create(schema=shard.schema, identifier=shard.identifier) -%}
    {{ log(adapter.mv_judge(relation, graph.nodes[shard.unique_id], tojson(shard)), info=True) }}
  {%- endfor -%}
{% endmacro %}


{# `mvsink plan --against`: drops the schemas that it has made; no others. #}
{% macro mvsink_end_rehearsal(schemas) %}
  {%- for schema in schemas if schema.startswith('mvsink_plan_') -%}
    {%- do adapter.drop_schema(api.Relation.create(schema=schema)) -%}
  {%- endfor -%}
{% endmacro %}
