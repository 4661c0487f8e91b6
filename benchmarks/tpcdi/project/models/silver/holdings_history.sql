select
  h.hh_h_t_id as previous_trade_id, h.hh_t_id as trade_id, h.hh_before_qty as before_quantity,
  h.hh_after_qty as after_quantity, t.account_id, t.symbol, t.create_timestamp, t.close_timestamp,
  t.trade_price, t.bid_price, t.fee, t.commission
from {{ ref('brokerage_holding_history') }} h
join {{ ref('trades') }} t on t.trade_id = h.hh_h_t_id
