{#
  A maintained view: each run compares what the model's SQL gives with what the shard holds, and appends the difference.
  The order matters: everything is checked before a hook runs, hooks run before anything is read, the view shows the new contents
  before grants and post-hooks. In read-only mode only the comparison happens.
#}
{% materialization self_correcting_mv, adapter='mvsink', supported_languages=['sql'] %}
  {%- set target_relation = this.incorporate(type='view') -%}
  {%- set existing = load_cached_relation(this) -%}
  {%- set query = mvsink_contract_query(sql) -%}
  {%- set invocation = mvsink_invocation() -%}
  {%- set prepared = adapter.mv_prepare(model, target_relation, existing, query, invocation) -%}
  {%- if prepared.pause -%}
    {%- do store_result('main', response=adapter.mv_leave_alone(prepared)) -%}
    {{ return({'relations': [existing or target_relation]}) }}
  {%- endif -%}
  {{ mvsink_before_run(prepared, pre_hooks) }}

  {%- set audits = [] -%}
  {%- for test in adapter.mv_audits(prepared) -%}
    {%- do audits.append((test, get_test_sql(test.sql, test.fail_calc, test.warn_if, test.error_if, test.limit))) -%}
  {%- endfor -%}
  {%- set executed = adapter.mv_run(prepared, audits) -%}
  {{ write(executed.text) }}

  {{ return({'relations': [mvsink_after_run(executed, target_relation, existing, post_hooks)]}) }}
{% endmaterialization %}


{# The steps before a run of either materialization. #}
{% macro mvsink_before_run(prepared, pre_hooks) %}
  {%- do adapter.mv_warn_of_ignored(invocation_id, graph.nodes, selected_resources) -%}
  {%- do mvsink_say_orphans() -%}
  {%- if not prepared.read_only -%}
    {%- do adapter.mv_run_hooks('pre-hook', pre_hooks, render, this) -%}
  {%- endif -%}
  {%- if config.get('sql_header') -%}
    {%- call statement('sql_header') -%}{{ config.get('sql_header') }}{%- endcall -%}
  {%- endif -%}
{% endmacro %}


{# The steps after it: publishing, grants, post-hooks, and the log line. Returns the relation as it is then: a view or a table. #}
{% macro mvsink_after_run(executed, target_relation, existing, post_hooks) %}
  {%- set backup_relation = none if executed.read_only else mvsink_backup(existing, executed) -%}
  {%- set published = adapter.mv_publish(executed, mvsink_docs()) -%}
  {%- set target_relation = target_relation.incorporate(type=published.type) -%}
  {%- if not executed.read_only -%}
    {%- if backup_relation is not none -%}
      {%- do adapter.drop_relation(backup_relation) -%}
    {%- endif -%}
    {%- do apply_grants(target_relation, config.get('grants'), should_revoke=should_revoke(existing, full_refresh_mode=True)) -%}
    {%- do adapter.mv_run_hooks('post-hook', post_hooks, render, this) -%}
  {%- endif -%}
  {%- do store_result('main', response=adapter.mv_finish(published)) -%}
  {{ return(target_relation) }}
{% endmacro %}


{# With an enforced contract: the columns are checked, and selected in the contract's order. #}
{% macro mvsink_contract_query(sql) %}
  {%- if config.get('contract').enforced -%}
    {{ get_assert_columns_equivalent(sql) }}
    {{ return(get_select_subquery(sql)) }}
  {%- endif -%}
  {{ return(sql) }}
{% endmacro %}


{# The invocation, as plain values. #}
{% macro mvsink_invocation() %}
  {{ return({
    'id': invocation_id,
    'time': mvsink_time(),
    'target': target.name,
    'project': project_name,
    'read_only': var('mvsink_read_only', false) or target.get('read_only', false) or false,
    'full_refresh': should_full_refresh(),
    'empty': flags.EMPTY,
    'references': mvsink_references(),
    'accept': var('mvsink_accept', []),
    'sample': var('mvsink_sample', 0),
    'verify': var('mvsink_verify', false),
    'explain': var('mvsink_explain', false),
    'future': var('mvsink_future', false),
    'rehearsal': var('mvsink_rehearsal', false),
    'imports': var('mvsink_import', []),
  }) }}
{% endmacro %}


{# How this model's query names the relations it reads, and what they are: also where a reference is deferred, or in an ephemeral model. #}
{% macro mvsink_references(unique_ids=none) %}
  {%- set found = {} -%}
  {%- for unique_id in (model.depends_on.nodes if unique_ids is none else unique_ids) -%}
    {%- set node = graph.nodes.get(unique_id) or graph.sources.get(unique_id) -%}
    {%- if node is not none and node.config.materialized == 'ephemeral' -%}
      {%- do found.update(mvsink_references(node.depends_on.nodes)) -%}
    {%- endif -%}
    {%- if node is not none and node.relation_name -%}
      {%- do found.update({node.relation_name: unique_id}) -%}
    {%- endif -%}
    {%- if node is not none and node.defer_relation and node.defer_relation.relation_name -%}
      {%- do found.update({node.defer_relation.relation_name: unique_id}) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(found) }}
{% endmacro %}


{# Another table in the model's place: it stays readable under its name until the model is about to be created. One that was imported is kept. #}
{% macro mvsink_backup(existing, executed) %}
  {%- if existing is none or existing.is_view or adapter.mv_is_shard(existing) -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set imported = adapter.mv_name_of_imported(executed, existing) -%}
  {%- if imported is not none -%}
    {%- do adapter.rename_relation(existing, imported) -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set backup_relation = make_backup_relation(existing, existing.type) -%}
  {%- do drop_relation_if_exists(load_cached_relation(backup_relation)) -%}
  {%- do adapter.rename_relation(existing, backup_relation) -%}
  {{ return(backup_relation) }}
{% endmacro %}


{# What `persist_docs` puts on the view. #}
{% macro mvsink_docs() %}
  {%- set comments = {} -%}
  {%- if config.persist_column_docs() -%}
    {%- for name, column in model.columns.items() -%}
      {%- do comments.update({name: column['description']}) -%}
    {%- endfor -%}
  {%- endif -%}
  {{ return({
    'comment': model.description if config.persist_relation_docs() else none,
    'column_comments': comments if config.persist_column_docs() else none,
  }) }}
{% endmacro %}
