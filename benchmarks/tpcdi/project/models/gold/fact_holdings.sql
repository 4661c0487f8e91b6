select
  current_trade.sk_trade_id as sk_current_trade_id, previous_trade.sk_trade_id as sk_previous_trade_id,
  a.sk_customer_id, a.sk_account_id, s.sk_security_id,
  cast(h.create_timestamp as date) as trade_date, h.create_timestamp as trade_timestamp,
  h.trade_price as current_price, h.after_quantity as current_holding, h.bid_price as current_bid_price,
  h.fee as current_fee, h.commission as current_commission
from {{ ref('holdings_history') }} h
join {{ ref('dim_trade') }} current_trade on current_trade.trade_id = h.trade_id
join {{ ref('dim_trade') }} previous_trade on previous_trade.trade_id = h.previous_trade_id
join {{ ref('dim_account') }} a on a.account_id = h.account_id and {{ valid_at('a', 'h.create_timestamp') }}
join {{ ref('dim_security') }} s on s.symbol = h.symbol
