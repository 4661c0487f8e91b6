{#
  A trigger for tables: for every time at which the input changed, the model's statements run over just those changes. The steps have
  the order of self_correcting_mv.
#}
{% materialization continual_task, adapter='mvsink', supported_languages=['sql'] %}
  {%- set target_relation = this.incorporate(type='view') -%}
  {%- set existing = load_cached_relation(this) -%}
  {%- set reset = var('mvsink_reset', []) -%}
  {%- set reset = [reset] if reset is string else reset -%}
  {%- set prepared = adapter.mv_prepare_task(config, model, target_relation, existing, mvsink_invocation(), reset) -%}
  {%- if prepared.pause -%}
    {%- do store_result('main', response=adapter.mv_leave_alone(prepared)) -%}
    {{ return({'relations': [existing or target_relation]}) }}
  {%- endif -%}
  {{ mvsink_before_run(prepared, pre_hooks) }}

  {%- set executed = adapter.mv_run(prepared) -%}
  {{ write(executed.text) }}

  {{ return({'relations': [mvsink_after_run(executed, target_relation, existing, post_hooks)]}) }}
{% endmaterialization %}


{# The rows that a task's input lost, in its statements; `ct_deletes` is another name. #}
{% macro mv_deletes(relation) -%}
  {{ relation }} /* mv_deletes */
{%- endmacro %}

{% macro ct_deletes(relation) -%}
  {{ mv_deletes(relation) }}
{%- endmacro %}

{# All rows of a task's input as of the time of the change, in its statements. #}
{% macro mv_contents(relation) -%}
  {{ relation }} /* mv_contents */
{%- endmacro %}
