with positions as (
  select
    t.sk_customer_id, t.sk_account_id, s.sk_security_id, count(*) as trades,
    sum(t.trade_price * t.quantity) as value, sum(t.fee + t.commission) as costs
  from {{ ref('fact_trade') }} t
  join {{ ref('dim_security') }} s on s.sk_security_id = t.sk_security_id
  group by t.sk_customer_id, t.sk_account_id, s.sk_security_id
),
portfolios as (
  select
    sk_customer_id, count(distinct sk_account_id) as accounts, count(distinct sk_security_id) as securities,
    sum(trades) as trades, sum(value) as value, sum(costs) as costs, max(value) as largest_position
  from positions
  group by sk_customer_id
  having sum(trades) >= 2
),
market as (
  select avg(value) as average, stddev(value) as deviation, sum(value) as total
  from portfolios
)
select
  p.sk_customer_id, p.accounts, p.securities, p.trades,
  round(p.value, 6) as value, round(p.costs, 6) as costs, round(p.largest_position, 6) as largest_position,
  round(p.largest_position / nullif(p.value, 0), 4) as largest_share,
  round((p.value - m.average) / nullif(m.deviation, 0), 4) as value_z_score,
  round(p.value / nullif(m.total, 0), 4) as market_share,
  dense_rank() over (order by p.value desc) as value_rank,
  dense_rank() over (order by p.securities desc) as securities_rank
from portfolios p
cross join market m
where not exists (select 1 from {{ ref('fact_watches') }} w where w.sk_customer_id = p.sk_customer_id)
