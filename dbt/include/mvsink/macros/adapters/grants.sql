{# `grants` where Spark has none: refused, or skipped with a warning, as the profile's `unsupported_grants` says. Also of dbt's own models. #}
{% macro mvsink__apply_grants(relation, grant_config, should_revoke=True) %}
  {{ return(default__apply_grants(relation, adapter.mv_applicable_grants(relation, grant_config, invocation_id), should_revoke)) }}
{% endmacro %}
