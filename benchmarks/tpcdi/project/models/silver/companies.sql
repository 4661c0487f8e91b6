select
  c.cik as company_id, s.st_name as status, c.company_name as name, i.in_name as industry, c.sp_rating,
  c.ceo_name as ceo, c.addr_line1 as address_line1, c.addr_line2 as address_line2, c.postal_code, c.city,
  c.state_province, c.country, c.description, c.founding_date,
  {{ validity('c.cik', 'c.pts') }}
from {{ ref('finwire_company') }} c
join {{ ref('reference_status_type') }} s on s.st_id = c.status
join {{ ref('reference_industry') }} i on i.in_id = c.industry_id
