with money as (
  select
    s.symbol, s.sk_security_id, s.sk_company_id, t.sk_customer_id, t.sk_broker_id, t.create_date, t.quantity,
    t.trade_price, cast(t.trade_price as decimal(18, 6)) as price,
    cast(t.trade_price as decimal(18, 6)) * t.quantity as notional,
    cast(t.commission as decimal(18, 6)) as commission, cast(t.fee as decimal(18, 6)) as fee
  from {{ ref('fact_trade') }} t
  join {{ ref('dim_security') }} s on s.sk_security_id = t.sk_security_id
)
select
  symbol, sk_security_id, sk_company_id,
  count(*) as trades, count(distinct sk_customer_id) as customers, count(distinct sk_broker_id) as brokers,
  count(distinct create_date) as days, sum(quantity) as quantity, round(sum(notional), 6) as notional,
  round(avg(price), 6) as average_price, min(price) as min_price, max(price) as max_price,
  round(stddev(trade_price), 6) as price_deviation,
  round(sum(commission), 6) as commission, round(avg(commission), 6) as average_commission,
  round(sum(fee), 6) as fee, round(avg(fee), 6) as average_fee,
  round((sum(commission) + sum(fee)) / nullif(sum(notional), 0), 4) as cost_ratio
from money
group by symbol, sk_security_id, sk_company_id
having count(*) >= 2
