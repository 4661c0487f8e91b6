{#
  A trigger for tables: for every time at which the input changed, the model's statements run over just those changes. The order of the
  steps is that of self_correcting_mv.
#}
{% materialization continual_task, adapter='mvsink', supported_languages=['sql'] %}
  {%- set target_relation = this.incorporate(type='view') -%}
  {%- set existing = load_cached_relation(this) -%}
  {%- set reset = var('mvsink_reset', []) -%}
  {%- set reset = [reset] if reset is string else reset -%}
  {%- set run = adapter.mv_prepare_task(config, model, target_relation, existing, mvsink_invocation(), reset) -%}
  {%- set writes = not run.read_only -%}
  {%- do adapter.mv_warn_of_ignored(invocation_id, graph.nodes, selected_resources) -%}

  {%- if writes -%}
    {{ mvsink_run_hooks(pre_hooks) }}
  {%- endif -%}
  {%- if config.get('sql_header') -%}
    {%- call statement('sql_header') -%}{{ config.get('sql_header') }}{%- endcall -%}
  {%- endif -%}

  {%- do adapter.mv_run(run) -%}
  {{ write(run.query) }}

  {%- if writes -%}
    {%- set stepped_aside = mvsink_step_aside(existing) -%}
    {%- do adapter.mv_publish(run, mvsink_docs()) -%}
    {%- if stepped_aside is not none -%}
      {%- do adapter.drop_relation(stepped_aside) -%}
    {%- endif -%}
    {%- do apply_grants(target_relation, config.get('grants'), should_revoke=should_revoke(existing, full_refresh_mode=True)) -%}
    {{ mvsink_run_hooks(post_hooks) }}
  {%- endif -%}

  {%- do store_result('main', response=adapter.mv_finish(run)) -%}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}


{# The rows that a task's input lost, in its statements; `ct_deletes` is another name. #}
{% macro mv_deletes(relation) -%}
  {{ relation }} /* mv_deletes */
{%- endmacro %}

{% macro ct_deletes(relation) -%}
  {{ mv_deletes(relation) }}
{%- endmacro %}
