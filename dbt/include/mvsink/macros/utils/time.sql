{# The run's logical time T in milliseconds: a var, the environment, or the invocation's start. #}
{% macro mvsink_time() %}
  {{ return(adapter.mv_time(var('mvsink_run_time', none), run_started_at)) }}
{% endmacro %}

{# The run's logical time as a TIMESTAMP. In a model with a refresh schedule the run replaces it by its write time. #}
{% macro mv_now() -%}
  timestamp_millis({{ mvsink_time() if execute else 0 }}L) /* mv_now */
{%- endmacro %}
