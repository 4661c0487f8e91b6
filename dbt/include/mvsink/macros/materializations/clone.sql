{#
  `dbt clone` of a maintained model: a view on the other shard's view, which reads whatever that one shows. The clone's first run
  replaces it with a shard of its own. Everything else is dbt-spark's.
#}
{% materialization clone, adapter='mvsink' %}
  {%- do adapter.mv_refuse_in_read_only(this, 'clone') -%}
  {%- if config.get('materialized') not in ['self_correcting_mv', 'continual_task'] -%}
    {{ return(context['materialization_clone_spark']()) }}
  {%- endif -%}
  {%- set existing = load_cached_relation(this) -%}
  {%- if not defer_relation -%}
    {{ log("No relation found in state manifest for " ~ model.unique_id, info=True) }}
    {{ return({'relations': []}) }}
  {%- endif -%}
  {%- if existing is not none and not flags.FULL_REFRESH -%}
    {{ log("Relation " ~ existing ~ " already exists", info=True) }}
    {{ return({'relations': []}) }}
  {%- endif -%}
  {%- if existing is not none -%}
    {%- do adapter.drop_relation(existing) -%}
  {%- endif -%}
  {%- set target_relation = this.incorporate(type='view') -%}
  {%- call statement('main') -%}
    create view {{ target_relation }} as select * from {{ defer_relation }}
  {%- endcall -%}
  {%- do apply_grants(target_relation, config.get('grants'), should_revoke=should_revoke(existing, full_refresh_mode=True)) -%}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
