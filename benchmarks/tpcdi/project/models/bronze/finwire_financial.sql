select
  pts,
  cast({{ cut(19, 4) }} as int) as year,
  cast({{ cut(23, 1) }} as int) as quarter,
  to_date({{ cut(24, 8) }}, 'yyyyMMdd') as quarter_start_date,
  to_date({{ cut(32, 8) }}, 'yyyyMMdd') as posting_date,
  cast({{ cut(40, 17) }} as double) as revenue,
  cast({{ cut(57, 17) }} as double) as earnings,
  cast({{ cut(74, 12) }} as double) as eps,
  cast({{ cut(86, 12) }} as double) as diluted_eps,
  cast({{ cut(98, 12) }} as double) as margin,
  cast({{ cut(110, 17) }} as double) as inventory,
  cast({{ cut(127, 17) }} as double) as assets,
  cast({{ cut(144, 17) }} as double) as liabilities,
  cast({{ cut(161, 13) }} as bigint) as sh_out,
  cast({{ cut(174, 13) }} as bigint) as diluted_sh_out,
  case when {{ cut(187, 60) }} rlike '^[0-9]+$' then try_cast({{ cut(187, 60) }} as bigint) end as cik,
  case when not {{ cut(187, 60) }} rlike '^[0-9]+$' then {{ cut(187, 60) }} end as company_name
from {{ source('tpcdi', 'batch1_finwire') }}
where rec_type = 'FIN'
