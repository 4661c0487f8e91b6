{#
  A model that was a shard and becomes a table: the table is built beside what shows the shard, which stays readable until it is complete.
  One that becomes a view: its shard is marked dropped as soon as the view no longer shows it. Where the shard was a table in the catalog,
  which a view cannot replace, the view is made beside it first. Everything else is dbt-spark's.
#}
{% materialization table, adapter='mvsink', supported_languages=['sql', 'python'] %}
  {{ return(mvsink_beside_or('materialization_table_spark')) }}
{% endmaterialization %}


{% materialization incremental, adapter='mvsink', supported_languages=['sql', 'python'] %}
  {%- if config.get('incremental_strategy') == 'microbatch' -%}
    {%- do adapter.mv_check_microbatch(this) -%}
  {%- endif -%}
  {{ return(mvsink_beside_or('materialization_incremental_spark')) }}
{% endmaterialization %}


{% macro mvsink_beside_or(spark_materialization) %}
  {%- set existing = load_cached_relation(this) -%}
  {%- if existing is none or model['language'] != 'sql' or not adapter.mv_is_shard(existing) -%}
    {{ return(context[spark_materialization]()) }}
  {%- endif -%}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set beside = make_intermediate_relation(target_relation) -%}

  {{ run_hooks(pre_hooks) }}
  {%- do drop_relation_if_exists(load_cached_relation(beside)) -%}
  {%- call statement('main') -%}
    {{ create_table_as(False, beside, compiled_code) }}
  {%- endcall -%}
  {%- do adapter.drop_relation(existing) -%}
  {%- do adapter.rename_relation(beside, target_relation) -%}

  {%- do apply_grants(target_relation, config.get('grants'), should_revoke(existing, full_refresh_mode=True)) -%}
  {%- do persist_docs(target_relation, model) -%}
  {%- do persist_constraints(target_relation, model) -%}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmacro %}


{% materialization view, adapter='mvsink', supported_languages=['sql'] %}
  {%- set existing = load_cached_relation(this) -%}
  {%- set shown = adapter.mv_shown(existing) -%}
  {%- if shown is none -%}
    {{ return(context['materialization_view_spark']()) }}
  {%- endif -%}
  {%- do adapter.mv_refuse_in_read_only(this, 'view') -%}
  {%- set target_relation = this.incorporate(type='view') -%}

  {%- set created = make_intermediate_relation(target_relation) if shown.table else target_relation -%}

  {{ run_hooks(pre_hooks) }}
  {%- if shown.table -%}
    {%- do drop_relation_if_exists(load_cached_relation(created)) -%}
  {%- endif -%}
  {%- call statement('main') -%}
    {{ get_create_view_as_sql(created, sql) }}
  {%- endcall -%}
  {%- if shown.table -%}
    {%- do adapter.drop_relation(existing) -%}
    {%- do adapter.rename_relation(created, target_relation) -%}
  {%- endif -%}
  {%- set warnings = [] if shown.table else adapter.mv_mark_shard_dropped(target_relation | string, shown.uri) -%}

  {%- do apply_grants(target_relation, config.get('grants'), should_revoke(true, full_refresh_mode=True)) -%}
  {{ run_hooks(post_hooks) }}
  {%- do adapter.mv_warn(warnings) -%}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
