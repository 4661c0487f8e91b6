{# A seed is loaded through a staged Parquet file (adapter/seeds.py). #}
{% materialization seed, adapter='mvsink' %}
  {%- set old_relation = adapter.get_relation(database=database, schema=schema, identifier=model['alias']) -%}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- if old_relation is not none and old_relation.is_view -%}
    {{ exceptions.raise_compiler_error("Cannot seed to '{}', it is a view".format(old_relation.render())) }}
  {%- endif -%}
  {%- set staged = adapter.mv_stage_seed(model, flags.EMPTY) -%}
  {%- do store_result('agate_table', response='OK', agate_table=staged.sample) -%}

  {%- do adapter.mv_run_hooks('pre-hook', pre_hooks, render, this) -%}

  {#- The values are cast before the old table is dropped: a seed that cannot be read does not change it. -#}
  {%- do adapter.mv_check_seed(staged) -%}
  {%- if old_relation is not none -%}
    {%- do adapter.drop_relation(old_relation) -%}
  {%- endif -%}
  {%- set code = 'CREATE' if should_full_refresh() else 'INSERT' -%}
  {%- call statement('create_seed') -%}
    create table {{ target_relation }}
    {{ file_format_clause() }}
    {{ partition_cols(label="partitioned by") }}
    {{ clustered_cols(label="clustered by") }}
    {{ location_clause() }}
    {{ comment_clause() }}
    as
    {{ staged.query }}
  {%- endcall -%}
  {%- do adapter.mv_discard_seed(staged) -%}
  {% call noop_statement('main', code ~ ' ' ~ staged.rows, code, staged.rows) %}
    {{ staged.query }}
  {% endcall %}

  {%- do apply_grants(target_relation, config.get('grants'), should_revoke=should_revoke(old_relation, should_full_refresh())) -%}
  {%- do persist_docs(target_relation, model) -%}
  {%- do adapter.mv_run_hooks('post-hook', post_hooks, render, this) -%}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
