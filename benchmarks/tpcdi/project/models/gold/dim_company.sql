select
  {{ surrogate_key(['company_id', 'effective_timestamp']) }} as sk_company_id,
  company_id, status, name, industry, ceo, address_line1, address_line2, postal_code, city, state_province, country,
  description, founding_date, sp_rating,
  sp_rating in ('BB+', 'BB', 'BB-', 'B+', 'B', 'B-', 'CCC+', 'CCC', 'CCC-', 'CC', 'C', 'D') as is_lowgrade,
  effective_timestamp, end_timestamp, is_current
from {{ ref('companies') }}
