select
  s.sk_security_id, s.sk_company_id, d.date, s.dividend / nullif(d.close, 0) / 100 as yield,
  d.fifty_two_week_high, d.fifty_two_week_high_date, d.fifty_two_week_low, d.fifty_two_week_low_date,
  d.close as closing_price, d.high as day_high, d.low as day_low, d.volume
from {{ ref('daily_market') }} d
join {{ ref('dim_security') }} s on s.symbol = d.symbol and {{ valid_at('s', 'cast(d.date as timestamp)') }}
left join {{ ref('wrk_company_financials') }} f on f.sk_company_id = s.sk_company_id
