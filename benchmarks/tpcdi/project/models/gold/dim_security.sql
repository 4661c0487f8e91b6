select
  {{ surrogate_key(['s.symbol', 's.effective_timestamp']) }} as sk_security_id,
  s.symbol, s.issue_type as issue, s.status, s.name, s.exchange_id, c.sk_company_id, s.shares_outstanding,
  s.first_trade_date, s.first_exchange_date, s.dividend, s.effective_timestamp, s.end_timestamp, s.is_current
from {{ ref('securities') }} s
join {{ ref('dim_company') }} c on c.company_id = s.company_id and {{ valid_at('c', 's.effective_timestamp') }}
