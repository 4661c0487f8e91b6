with reports as (
  select
    f.year, f.quarter, f.quarter_start_date, f.posting_date, f.revenue, f.earnings, f.eps, f.diluted_eps, f.margin,
    f.inventory, f.assets, f.liabilities, f.sh_out, f.diluted_sh_out, f.pts,
    coalesce(by_id.name, by_name.name) as company_name,
    coalesce(by_id.company_id, by_name.company_id) as company_id
  from {{ ref('finwire_financial') }} f
  left join {{ ref('companies') }} by_id
    on by_id.company_id = cast(f.cik as string) and {{ valid_at('by_id', 'f.pts') }}
  left join {{ ref('companies') }} by_name
    on by_name.name = f.company_name and {{ valid_at('by_name', 'f.pts') }}
)
select
  company_id, company_name, year, quarter, quarter_start_date, posting_date, revenue, earnings, eps, diluted_eps,
  margin, inventory, assets, liabilities, sh_out, diluted_sh_out,
  {{ validity('company_id', 'pts', 'year desc, quarter desc, posting_date desc, revenue desc') }}
from reports
