select
  a.sk_customer_id, a.sk_account_id, cast(t.transaction_timestamp as date) as transaction_date,
  t.transaction_timestamp, t.amount, t.description
from {{ ref('cash_transactions') }} t
join {{ ref('dim_account') }} a on a.account_id = t.account_id and {{ valid_at('a', 't.transaction_timestamp') }}
