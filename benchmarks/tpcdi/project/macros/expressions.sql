{# A surrogate key: the digest of the parts as text. #}
{% macro surrogate_key(parts) -%}
md5(concat_ws('-'{% for part in parts %}, coalesce(cast({{ part }} as string), '<null>'){% endfor %}))
{%- endmacro %}

{# When an event of `key` took effect, until when it was valid, and whether it is the newest. #}
{% macro validity(key, time, ties='') -%}
{%- set newest_first = 'over (partition by ' ~ key ~ ' order by ' ~ time ~ ' desc' ~ (', ' ~ ties if ties else '') ~ ')' -%}
{{ time }} as effective_timestamp,
  coalesce(lag({{ time }}) {{ newest_first }} - interval 1 millisecond, timestamp '9999-12-31 23:59:59.999') as end_timestamp,
  row_number() {{ newest_first }} = 1 as is_current
{%- endmacro %}

{# Whether the event of `alias` was valid at `time`. #}
{% macro valid_at(alias, time) -%}
{{ time }} between {{ alias }}.effective_timestamp and {{ alias }}.end_timestamp
{%- endmacro %}

{# A field of a line of fixed width; NULL if it is blank. #}
{% macro cut(start, length) -%}
nullif(trim(substring(line, {{ start }}, {{ length }})), '')
{%- endmacro %}

{# Parts of a telephone number, as one text. #}
{% macro phone(country, area, local, extension) -%}
concat_ws('-', cast({{ country }} as string), cast({{ area }} as string), {{ local }}, cast({{ extension }} as string))
{%- endmacro %}

{# Only in an incremental model of dbt: the rows that are newer than all of the table's. #}
{% macro only_newer(column) -%}
{% if is_incremental() %}where coalesce({{ column }} > (select max({{ column }}) from {{ this }}), {{ column }} is not null){% endif %}
{%- endmacro %}
