with neighbours as (
  select
    symbol, date, close, high, low, volume,
    lag(close) over (partition by symbol order by date, close, volume) as previous_close,
    lead(close) over (partition by symbol order by date, close, volume) as next_close
  from {{ ref('daily_market') }}
),
returns as (
  select *, (close - previous_close) / nullif(previous_close, 0) as daily_return
  from neighbours
),
symbols as (
  select
    symbol, count(daily_return) as returns, round(avg(daily_return), 6) as average_return,
    stddev(daily_return) as volatility, round(avg(high - low), 6) as average_range, max(high - low) as largest_range,
    sum(volume) as volume, round(avg(volume), 6) as average_volume, round(stddev(volume), 6) as volume_deviation,
    count(distinct date) as days
  from returns
  group by symbol
  having count(daily_return) >= 3
),
overall as (
  select avg(volatility) as average_volatility, stddev(volatility) as deviation, sum(volume) as total_volume
  from symbols
)
select
  s.symbol, s.returns, s.average_return, round(s.volatility, 6) as volatility, s.average_range, s.largest_range,
  s.volume, s.average_volume, s.volume_deviation, s.days,
  round((s.volatility - o.average_volatility) / nullif(o.deviation, 0), 4) as volatility_z_score,
  round(s.volume / nullif(o.total_volume, 0), 4) as volume_share,
  rank() over (order by s.volatility desc, s.symbol) as volatility_rank,
  rank() over (order by s.volume desc, s.symbol) as volume_rank
from symbols s
cross join overall o
