{# `dbt show -s task`: a task's text is not a query, so its output is shown. #}
{% macro mvsink__get_limit_sql(sql, limit) -%}
  {%- if model is defined and model.resource_type == 'model' and model.config.materialized == 'continual_task' -%}
    {%- if load_relation(this) is none -%}
      {%- do adapter.mv_refuse(this.schema ~ '.' ~ this.identifier ~ ': not run yet; `dbt show` of a continual_task shows its output') -%}
    {%- endif -%}
    {{ return(default__get_limit_sql('select * from ' ~ this.render(), limit)) }}
  {%- endif -%}
  {{ return(default__get_limit_sql(sql, limit)) }}
{%- endmacro %}
