select
  {{ surrogate_key(['trade_id', 'effective_timestamp']) }} as sk_trade_id,
  trade_id, trade_status as status, transaction_type, trade_type as type, executor_name as executed_by,
  effective_timestamp, end_timestamp, is_current
from {{ ref('trades_history') }}
