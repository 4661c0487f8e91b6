with issued as (
  select
    s.symbol, s.issue_type,
    case s.status when 'ACTV' then 'Active' when 'INAC' then 'Inactive' end as status,
    s.name, s.ex_id as exchange_id, s.sh_out as shares_outstanding, s.first_trade_date, s.first_exchange_date,
    s.dividend, s.pts,
    coalesce(by_id.name, by_name.name) as company_name,
    coalesce(by_id.company_id, by_name.company_id) as company_id
  from {{ ref('finwire_security') }} s
  left join {{ ref('companies') }} by_id
    on by_id.company_id = cast(s.cik as string) and {{ valid_at('by_id', 's.pts') }}
  left join {{ ref('companies') }} by_name
    on by_name.name = s.company_name and {{ valid_at('by_name', 's.pts') }}
)
select
  symbol, issue_type, status, name, exchange_id, shares_outstanding, first_trade_date, first_exchange_date, dividend,
  company_id, company_name,
  {{ validity('symbol', 'pts') }}
from issued
