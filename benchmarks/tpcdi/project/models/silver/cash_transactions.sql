select
  a.customer_id, a.account_id, t.ct_dts as transaction_timestamp, t.ct_amt as amount, t.ct_name as description
from {{ ref('brokerage_cash_transaction') }} t
join {{ ref('accounts') }} a on a.account_id = t.ct_ca_id and {{ valid_at('a', 't.ct_dts') }}
