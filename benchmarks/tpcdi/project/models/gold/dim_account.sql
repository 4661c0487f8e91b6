select
  {{ surrogate_key(['a.account_id', 'a.effective_timestamp']) }} as sk_account_id,
  a.account_id, b.sk_broker_id, c.sk_customer_id, a.status, a.account_desc, a.tax_status,
  a.effective_timestamp, a.end_timestamp, a.is_current
from {{ ref('accounts') }} a
join {{ ref('dim_customer') }} c on c.customer_id = a.customer_id and {{ valid_at('c', 'a.effective_timestamp') }}
join {{ ref('dim_broker') }} b on b.broker_id = a.broker_id
