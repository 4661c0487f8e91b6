with bounded as (
  select
    dm_s_symb, dm_date, dm_close, dm_high, dm_low, dm_vol,
    min(dm_low) over (partition by dm_s_symb order by dm_date rows between 364 preceding and current row) as year_low,
    max(dm_high) over (partition by dm_s_symb order by dm_date rows between 364 preceding and current row) as year_high
  from {{ ref('brokerage_daily_market') }}
),
matched as (
  select
    b.*, low.dm_date as low_date, high.dm_date as high_date,
    row_number() over (partition by b.dm_s_symb, b.dm_date order by low.dm_date, high.dm_date) as place
  from bounded b
  join bounded low
    on low.dm_s_symb = b.dm_s_symb and low.dm_low = b.year_low
    and low.dm_date between add_months(b.dm_date, -12) and b.dm_date
  join bounded high
    on high.dm_s_symb = b.dm_s_symb and high.dm_high = b.year_high
    and high.dm_date between add_months(b.dm_date, -12) and b.dm_date
)
select
  dm_date as date, dm_s_symb as symbol, dm_close as close, dm_high as high, dm_low as low, dm_vol as volume,
  year_low as fifty_two_week_low, low_date as fifty_two_week_low_date,
  year_high as fifty_two_week_high, high_date as fifty_two_week_high_date
from matched
where place = 1
