select
  pts,
  {{ cut(19, 60) }} as company_name,
  {{ cut(79, 10) }} as cik,
  {{ cut(89, 4) }} as status,
  {{ cut(93, 2) }} as industry_id,
  {{ cut(95, 4) }} as sp_rating,
  to_date({{ cut(99, 8) }}, 'yyyyMMdd') as founding_date,
  {{ cut(107, 80) }} as addr_line1,
  {{ cut(187, 80) }} as addr_line2,
  {{ cut(267, 12) }} as postal_code,
  {{ cut(279, 25) }} as city,
  {{ cut(304, 20) }} as state_province,
  {{ cut(324, 24) }} as country,
  {{ cut(348, 46) }} as ceo_name,
  {{ cut(394, 150) }} as description
from {{ source('tpcdi', 'batch1_finwire') }}
where rec_type = 'CMP'
