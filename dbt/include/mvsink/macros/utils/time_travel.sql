{#
  The rows of a shard as of a time in its readable history, used like a relation: `from {{ mv_as_of(ref('m'), '2026-11-20 15:00') }}`.
  Times are milliseconds or ISO 8601. The text names the shard's current files: a model that dbt builds as a view is out
  of date once they are deleted. In a unit test, whose inputs have no history, it is the input, all of it added at 0.
#}
{% macro mv_as_of(relation, time) -%}
  {{ adapter.mv_as_of(relation, time) if mvsink_has_past() else relation }}
{%- endmacro %}


{#
  The updates of a shard with `lower <= _mv_time < upper`: its columns, `_mv_time` (ms), `_mv_diff`. With shape='cdf' the rows of Delta's change
  data feed: its columns, `_change_type`, `_mv_time`, `_commit_timestamp`, where a `key` (columns) shows changed rows as update_preimage and
  update_postimage.
#}
{% macro mv_updates(relation, lower, upper, key=none, shape='updates') -%}
  {%- if mvsink_has_past() -%}
    {{ adapter.mv_updates(relation, lower, upper, key, shape) }}
  {%- elif shape == 'cdf' -%}
    (select *, 'insert' as _change_type, 0L as _mv_time, timestamp_millis(0L) as _commit_timestamp from {{ relation }})
  {%- else -%}
    (select *, 0L as _mv_time, 1L as _mv_diff from {{ relation }})
  {%- endif -%}
{%- endmacro %}


{#
  The history of a shard's rows, as far as `retain_history` keeps it: its columns, `valid_from`, `valid_to` (NULL while current), `is_current`, and
  `valid_from_known`: false for rows that existed when the history begins, and may be older. With `key`, a list of columns, a slowly changing
  dimension of type 2; it fails, naming key and time, where the key was not unique. Without one, versions of whole rows, with their `copies`.
#}
{% macro mv_history(relation, key=none) -%}
  {%- if mvsink_has_past() -%}
    {{ adapter.mv_history(relation, key) }}
  {%- else -%}
    (select *, timestamp_millis(0L) as valid_from, cast(null as timestamp_ltz) as valid_to, true as is_current, false as valid_from_known
    {{- ', 1L as copies' if key is none }} from {{ relation }})
  {%- endif -%}
{%- endmacro %}


{# Whether there is a shard to read: not while dbt only collects references, nor in a unit test. #}
{% macro mvsink_has_past() -%}
  {{ return(execute and not (model is defined and model.resource_type == 'unit_test')) }}
{%- endmacro %}


{# `mvsink diff` and `mvsink blame`: the rows of a query, as JSON. `request` is JSON too: YAML would split some characters of it. #}
{% macro mvsink_read(request) %}
  {{ log(adapter.mv_read(request), info=True) }}
{% endmacro %}
