select
  t.t_id as trade_id, t.t_dts as trade_timestamp, t.t_ca_id as account_id, trade_status.st_name as trade_status,
  k.tt_name as trade_type, case t.t_is_cash when 1 then 'Cash' when 0 then 'Margin' end as transaction_type,
  t.t_s_symb as symbol, t.t_exec_name as executor_name, t.t_qty as quantity, t.t_bid_price as bid_price,
  t.t_trade_price as trade_price, t.t_chrg as fee, t.t_comm as commission, t.t_tax as tax,
  update_status.st_name as update_status,
  {{ validity('t.t_id', 'h.th_dts', 'update_status.st_name, trade_status.st_name') }}
from {{ ref('brokerage_trade') }} t
join {{ ref('brokerage_trade_history') }} h on h.th_t_id = t.t_id
join {{ ref('reference_trade_type') }} k on k.tt_id = t.t_tt_id
join {{ ref('reference_status_type') }} trade_status on trade_status.st_id = t.t_st_id
join {{ ref('reference_status_type') }} update_status on update_status.st_id = h.th_st_id
