{# The generator's Delta tables, as tables of the catalog: those that are missing:
   `dbt run-operation register_sources`, once. #}
{% macro register_sources() %}
  {% if execute and var('tpcdi_sources') %}
    {% set sources = graph.sources.values() | list %}
    {% set schema = sources[0].schema %}
    {% do run_query('create schema if not exists ' ~ schema) %}
    {% set present = run_query('show tables in ' ~ schema).columns[1].values() | list %}
    {% for each in sources if each.identifier not in present %}
      {% do run_query("create table " ~ schema ~ "." ~ each.identifier ~ " using delta location '" ~ var('tpcdi_sources') ~ "/" ~ each.identifier ~ "'") %}
    {% endfor %}
  {% endif %}
{% endmacro %}
