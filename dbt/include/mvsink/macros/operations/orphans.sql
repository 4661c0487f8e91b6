{# `dbt run-operation mvsink_orphans`: published shards whose model is gone. They are reported, never deleted. #}
{% macro mvsink_orphans() %}
  {%- set schemas = [target.schema] -%}
  {%- for node in graph.nodes.values() if node.resource_type == 'model' and node.schema not in schemas -%}
    {%- do schemas.append(node.schema) -%}
  {%- endfor -%}
  {%- set found = adapter.mv_orphans(schemas, graph.nodes, project_name, target.name) -%}
  {%- for orphan in found -%}
    {{ log("orphaned: " ~ orphan, info=True) }}
  {%- endfor -%}
  {{ log(found | length ~ " orphaned shards", info=True) }}
{% endmacro %}
