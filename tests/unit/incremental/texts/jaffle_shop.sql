-- stg_customers
with source as (select * from raw_customers)
select id as customer_id, name as customer_name from source
-- stg_locations
with source as (select * from raw_stores)
select id as location_id, name as location_name, tax_rate, date_trunc('day', opened_at) as opened_date from source
-- stg_order_items
with source as (select * from raw_items)
select id as order_item_id, order_id, sku as product_id from source
-- stg_orders
with source as (select * from raw_orders)
select id as order_id, store_id as location_id, customer as customer_id, subtotal as subtotal_cents,
    tax_paid as tax_paid_cents, order_total as order_total_cents,
    cast(subtotal / 100 as decimal(16, 2)) as subtotal, cast(tax_paid / 100 as decimal(16, 2)) as tax_paid,
    cast(order_total / 100 as decimal(16, 2)) as order_total, date_trunc('day', ordered_at) as ordered_at
from source
-- stg_products
with source as (select * from raw_products)
select sku as product_id, name as product_name, type as product_type, description as product_description,
    cast(price / 100 as decimal(16, 2)) as product_price,
    coalesce(type = 'jaffle', false) as is_food_item, coalesce(type = 'beverage', false) as is_drink_item
from source
-- stg_supplies
with source as (select * from raw_supplies)
select sha2(concat_ws('-', id, sku), 256) as supply_uuid, id as supply_id, sku as product_id, name as supply_name,
    cast(cost / 100 as decimal(16, 2)) as supply_cost, perishable as is_perishable_supply
from source
-- locations
select * from stg_locations
-- products
select * from stg_products
-- supplies
select * from stg_supplies
-- order_items
with supply_costs as (
    select product_id, sum(supply_cost) as supply_cost from stg_supplies group by 1),
joined as (
    select i.*, o.ordered_at, p.product_name, p.product_price, p.is_food_item, p.is_drink_item, c.supply_cost
    from stg_order_items i
    left join stg_orders o on i.order_id = o.order_id
    left join stg_products p on i.product_id = p.product_id
    left join supply_costs c on i.product_id = c.product_id)
select * from joined
-- orders
with per_order as (
    select order_id, sum(supply_cost) as order_cost, sum(product_price) as order_items_subtotal,
        count(order_item_id) as count_order_items,
        sum(case when is_food_item then 1 else 0 end) as count_food_items,
        sum(case when is_drink_item then 1 else 0 end) as count_drink_items
    from order_items group by 1),
compared as (
    select o.*, s.order_cost, s.order_items_subtotal, s.count_food_items, s.count_drink_items, s.count_order_items,
        s.count_food_items > 0 as is_food_order, s.count_drink_items > 0 as is_drink_order
    from stg_orders o left join per_order s on o.order_id = s.order_id)
select *, row_number() over (partition by customer_id order by ordered_at, order_id) as customer_order_number
from compared
-- customers
with per_customer as (
    select customer_id, count(distinct order_id) as count_lifetime_orders,
        count(distinct order_id) > 1 as is_repeat_buyer, min(ordered_at) as first_ordered_at,
        max(ordered_at) as last_ordered_at, sum(subtotal) as lifetime_spend_pretax,
        sum(tax_paid) as lifetime_tax_paid, sum(order_total) as lifetime_spend
    from orders group by 1)
select c.*, s.count_lifetime_orders, s.first_ordered_at, s.last_ordered_at, s.lifetime_spend_pretax,
    s.lifetime_tax_paid, s.lifetime_spend, case when s.is_repeat_buyer then 'returning' else 'new' end as customer_type
from stg_customers c left join per_customer s on c.customer_id = s.customer_id
-- metricflow_time_spine
select explode(sequence(date '2000-01-01', date '2030-01-01', interval 1 day)) as date_day
