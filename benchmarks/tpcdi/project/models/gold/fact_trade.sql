select
  k.sk_trade_id, a.sk_broker_id, a.sk_customer_id, a.sk_account_id, s.sk_security_id,
  t.create_timestamp, cast(t.create_timestamp as date) as create_date,
  t.close_timestamp, cast(t.close_timestamp as date) as close_date,
  t.executor_name as executed_by, t.quantity, t.bid_price, t.trade_price, t.fee, t.commission, t.tax
from {{ ref('trades') }} t
join {{ ref('dim_trade') }} k on k.trade_id = t.trade_id and {{ valid_at('k', 't.create_timestamp') }}
join {{ ref('dim_account') }} a on a.account_id = t.account_id and {{ valid_at('a', 't.create_timestamp') }}
join {{ ref('dim_security') }} s on s.symbol = t.symbol and {{ valid_at('s', 't.create_timestamp') }}
