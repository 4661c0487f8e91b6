select
  pts,
  {{ cut(19, 15) }} as symbol,
  {{ cut(34, 6) }} as issue_type,
  {{ cut(40, 4) }} as status,
  {{ cut(44, 70) }} as name,
  {{ cut(114, 6) }} as ex_id,
  cast({{ cut(120, 13) }} as bigint) as sh_out,
  to_date({{ cut(133, 8) }}, 'yyyyMMdd') as first_trade_date,
  to_date({{ cut(141, 8) }}, 'yyyyMMdd') as first_exchange_date,
  cast({{ cut(149, 12) }} as double) as dividend,
  case when {{ cut(161, 60) }} rlike '^[0-9]+$' then try_cast({{ cut(161, 60) }} as bigint) end as cik,
  case when not {{ cut(161, 60) }} rlike '^[0-9]+$' then {{ cut(161, 60) }} end as company_name
from {{ source('tpcdi', 'batch1_finwire') }}
where rec_type = 'SEC'
