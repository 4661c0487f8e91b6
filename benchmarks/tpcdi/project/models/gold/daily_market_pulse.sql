with days as (
  select
    date, count(*) as quotes, count(distinct symbol) as symbols, sum(volume) as volume, avg(close) as average_close,
    round(stddev(close), 6) as close_deviation, min(low) as lowest, max(high) as highest,
    avg(high - low) as average_range, count_if(close > (high + low) / 2) as upper_half
  from {{ ref('daily_market') }}
  group by date
),
quiet as (
  select d.*
  from days d
  where not exists (select 1 from {{ ref('fact_trade') }} t where t.create_date = d.date)
),
compared as (
  select
    q.*,
    lag(volume) over (order by date) as previous_volume,
    lag(average_close) over (order by date) as previous_close,
    lag(symbols) over (order by date) as previous_symbols
  from quiet q
),
overall as (
  select avg(volume) as average_volume, stddev(volume) as volume_deviation, sum(volume) as total_volume
  from days
)
select
  c.date, c.quotes, c.symbols, c.volume, c.average_close, c.close_deviation, c.lowest, c.highest, c.average_range,
  c.upper_half,
  round(100.0 * (c.volume - c.previous_volume) / nullif(c.previous_volume, 0), 4) as volume_change,
  round(100 * (c.average_close - c.previous_close) / nullif(c.previous_close, 0), 4) as close_change,
  round(100.0 * (c.symbols - c.previous_symbols) / nullif(c.previous_symbols, 0), 4) as symbols_change,
  round((c.volume - o.average_volume) / nullif(o.volume_deviation, 0), 4) as volume_z_score,
  round(c.volume / nullif(o.total_volume, 0), 4) as volume_share,
  rank() over (order by c.volume desc) as volume_rank,
  rank() over (order by c.close_deviation desc) as deviation_rank
from compared c
cross join overall o
