select
  w.w_c_id as customer_id, w.w_s_symb as symbol, w.w_dts as watch_timestamp,
  case w.w_action when 'ACTV' then 'Activate' when 'CNCL' then 'Cancelled' end as action_type,
  s.company_id, s.company_name, s.exchange_id, s.status as security_status
from {{ ref('brokerage_watch_history') }} w
join {{ ref('securities') }} s on s.symbol = w.w_s_symb
