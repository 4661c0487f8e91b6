{#
  The rows of a shard as of a time in its readable history, used like a relation: `from {{ mv_as_of(ref('m'), '2026-11-20 15:00') }}`.
  Times are milliseconds or ISO 8601. The text names the shard's current files: a model that dbt builds as a view is out
  of date once they are deleted. In a unit test, whose inputs have no history, it is the input, all of it added at 0.
#}
{% macro mv_as_of(relation, time) -%}
  {{ adapter.mv_as_of(relation, time) if mvsink_has_past() else relation }}
{%- endmacro %}


{# The updates of a shard with `lower <= _mv_time < upper`: its columns, `_mv_time` (ms), `_mv_diff`. #}
{% macro mv_updates(relation, lower, upper) -%}
  {%- if mvsink_has_past() -%}
    {{ adapter.mv_updates(relation, lower, upper) }}
  {%- else -%}
    (select *, 0L as _mv_time, 1L as _mv_diff from {{ relation }})
  {%- endif -%}
{%- endmacro %}


{# Whether there is a shard to read: not while dbt only collects references, nor in a unit test. #}
{% macro mvsink_has_past() -%}
  {{ return(execute and not (model is defined and model.resource_type == 'unit_test')) }}
{%- endmacro %}
