{#
  `dbt run-operation mvsink_orphans`: published shards whose model is gone or renamed. With `--args '{drop: true}'` their views are dropped and the
  shards marked dropped; their files stay.
#}
{% macro mvsink_orphans(drop=false) %}
  {%- if drop is not boolean -%}
    {%- do adapter.mv_refuse("mvsink_orphans: invalid argument `drop`\n  Got: " ~ drop ~ "\n  Expected: true or false") -%}
  {%- endif -%}
  {%- set schemas = [target.schema] -%}
  {%- for node in graph.nodes.values() if node.resource_type == 'model' and node.schema not in schemas -%}
    {%- do schemas.append(node.schema) -%}
  {%- endfor -%}
  {%- set found = adapter.mv_orphans(schemas, graph.nodes, project_name, target.name) -%}
  {%- for orphan in found -%}
    {%- if drop -%}
      {%- do adapter.mv_refuse_in_read_only(orphan.relation, 'drop') -%}
      {%- do adapter.drop_relation(orphan.relation) -%}
      {{ log("dropped: " ~ orphan, info=True) }}
    {%- else -%}
      {{ log("orphaned: " ~ orphan, info=True) }}
    {%- endif -%}
  {%- endfor -%}
  {{ log(found | length ~ " orphaned shards" ~ (" dropped" if drop else ""), info=True) }}
  {%- if found and not drop -%}
    {{ log("To drop all of them: dbt run-operation mvsink_orphans --args '{drop: true}'", info=True) }}
  {%- endif -%}
{% endmacro %}


{# Once per invocation: how many orphans there are, if any. #}
{% macro mvsink_say_orphans() %}
  {%- set count = adapter.mv_count_orphans(invocation_id, graph.nodes, project_name, target.name) -%}
  {%- if count -%}
    {{ log(count ~ (" published shard belongs to a model that is" if count == 1 else " published shards belong to models that are")
       ~ " gone or renamed. To list: dbt run-operation mvsink_orphans", info=True) }}
  {%- endif -%}
{% endmacro %}


{# `mvsink drop`: drops the views or tables of these shards and marks the shards dropped. It keeps what shows another shard. #}
{% macro mvsink_drop(shards) %}
  {%- for shard in shards -%}
    {%- set relation = adapter.get_relation(target.database, shard.schema, shard.identifier) -%}
    {%- set name = shard.schema ~ '.' ~ shard.identifier -%}
    {%- do adapter.mv_refuse_in_read_only(api.Relation.create(schema=shard.schema, identifier=shard.identifier), 'drop') -%}
    {%- set shown = adapter.mv_shown(relation) -%}
    {%- if shown is not none and (shown.uri == shard.uri or shown.shard_id == shard.shard_id) -%}
      {%- do adapter.drop_relation(relation) -%}
      {{ log("dropped the " ~ ("table " if shown.table else "view ") ~ name, info=True) }}
    {%- else -%}
      {%- do adapter.mv_warn(adapter.mv_mark_shard_dropped(name, shard.uri)) -%}
      {{ log(name ~ (": there is no such view or table" if relation is none else ": what has this name does not show the shard, and stays"), info=True) }}
    {%- endif -%}
  {%- endfor -%}
{% endmacro %}
