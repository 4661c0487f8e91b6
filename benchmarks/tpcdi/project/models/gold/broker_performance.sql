with money as (
  select
    b.sk_broker_id, b.broker_id, b.first_name, b.last_name, t.sk_customer_id, t.sk_security_id, t.sk_account_id,
    t.create_date, t.quantity, cast(t.trade_price as decimal(18, 6)) as price,
    cast(t.trade_price as decimal(18, 6)) * t.quantity as notional,
    cast(t.commission as decimal(18, 6)) as commission, cast(t.fee as decimal(18, 6)) as fee
  from {{ ref('fact_trade') }} t
  join {{ ref('dim_broker') }} b on b.sk_broker_id = t.sk_broker_id
)
select
  sk_broker_id, broker_id, first_name, last_name,
  count(*) as trades, count(distinct sk_customer_id) as customers, count(distinct sk_security_id) as securities,
  count(distinct sk_account_id) as accounts, count(distinct create_date) as days, sum(quantity) as quantity,
  round(sum(notional), 6) as notional, round(avg(price), 2) as average_price,
  round(sum(commission), 6) as commission, round(avg(commission), 2) as average_commission,
  round(sum(fee), 6) as fee, round(avg(fee), 2) as average_fee,
  round(100 * (sum(commission) + sum(fee)) / nullif(sum(notional), 0), 2) as cost_percent,
  round(sum(notional) / count(*), 2) as notional_per_trade
from money
group by sk_broker_id, broker_id, first_name, last_name
