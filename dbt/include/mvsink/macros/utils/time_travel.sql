{#
  The rows of a shard as of a time in its readable history, to be read from: `from {{ mv_as_of(ref('m'), '2026-11-20 15:00') }}`.
  Times are milliseconds or ISO 8601. The text names the shard's files as they are now: in a model that dbt builds as a view it is out
  of date once these files are gone. In a unit test, whose inputs have no past, it is the input, and all of it came at 0.
#}
{% macro mv_as_of(relation, time) -%}
  {{ adapter.mv_as_of(relation, time) if mvsink_has_past() else relation }}
{%- endmacro %}


{# How a shard changed at the times from `lower` up to, not including, `upper`: its columns, `_mv_time` (ms), `_mv_diff`. #}
{% macro mv_updates(relation, lower, upper) -%}
  {%- if mvsink_has_past() -%}
    {{ adapter.mv_updates(relation, lower, upper) }}
  {%- else -%}
    (select *, 0L as _mv_time, 1L as _mv_diff from {{ relation }})
  {%- endif -%}
{%- endmacro %}


{# Is there a shard to ask? Not while dbt only collects references, nor in a unit test. #}
{% macro mvsink_has_past() -%}
  {{ return(execute and not (model is defined and model.resource_type == 'unit_test')) }}
{%- endmacro %}
