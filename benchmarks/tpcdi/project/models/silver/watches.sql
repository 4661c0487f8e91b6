with placed as (
  select
    customer_id, symbol, company_id, company_name, exchange_id, security_status,
    min(case when action_type = 'Activate' then watch_timestamp end) as placed_timestamp,
    max(case when action_type = 'Cancelled' then watch_timestamp end) as removed_timestamp
  from {{ ref('watches_history') }}
  group by customer_id, symbol, company_id, company_name, exchange_id, security_status
)
select
  customer_id, symbol, company_id, company_name, exchange_id, security_status, placed_timestamp, removed_timestamp,
  case when removed_timestamp is null then 'Active' else 'Inactive' end as watch_status
from placed
