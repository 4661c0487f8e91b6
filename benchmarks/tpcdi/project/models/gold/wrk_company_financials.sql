{{ config(materialized='ephemeral') }}
select
  c.sk_company_id, f.company_id, f.eps, f.revenue, f.effective_timestamp, f.end_timestamp
from {{ ref('financials') }} f
join {{ ref('dim_company') }} c on c.company_id = f.company_id and {{ valid_at('c', 'f.effective_timestamp') }}
