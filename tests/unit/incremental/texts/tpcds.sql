-- 1
with customer_total_return as (
    select sr_customer_sk as customer_sk, sr_store_sk as store_sk, sum(sr_return_amt) as total_return
    from store_returns join date_dim on d_date_sk = sr_returned_date_sk
    where d_year = 2000
    group by sr_customer_sk, sr_store_sk)
select c_customer_id
from customer_total_return r
join store on s_store_sk = r.store_sk
join customer on c_customer_sk = r.customer_sk
where s_state = 'TN'
    and r.total_return > (
        select avg(o.total_return) * 1.2 from customer_total_return o where o.store_sk = r.store_sk)
-- 3
select d_year, i_brand_id, i_brand, sum(ss_ext_sales_price) as sum_agg
from date_dim, store_sales, item
where d_date_sk = ss_sold_date_sk and ss_item_sk = i_item_sk and i_manufact_id = 128 and d_moy = 11
group by d_year, i_brand, i_brand_id
-- 5
with ssr as (
    select s_store_id, sum(sales_price) as sales, sum(profit) as profit, sum(return_amt) as returns_, sum(net_loss) as loss
    from (
        select ss_store_sk as store_sk, ss_sold_date_sk as date_sk, ss_ext_sales_price as sales_price,
            ss_net_profit as profit, cast(0 as decimal(7, 2)) as return_amt, cast(0 as decimal(7, 2)) as net_loss
        from store_sales
        union all
        select sr_store_sk, sr_returned_date_sk, cast(0 as decimal(7, 2)), cast(0 as decimal(7, 2)), sr_return_amt, sr_net_loss
        from store_returns) r
    join date_dim on d_date_sk = date_sk
    join store on s_store_sk = store_sk
    where d_date between date '2000-08-23' and date '2000-09-06'
    group by s_store_id),
csr as (
    select cp_catalog_page_id, sum(sales_price) as sales, sum(profit) as profit, sum(return_amt) as returns_, sum(net_loss) as loss
    from (
        select cs_catalog_page_sk as page_sk, cs_sold_date_sk as date_sk, cs_ext_sales_price as sales_price,
            cs_net_profit as profit, cast(0 as decimal(7, 2)) as return_amt, cast(0 as decimal(7, 2)) as net_loss
        from catalog_sales
        union all
        select cr_catalog_page_sk, cr_returned_date_sk, cast(0 as decimal(7, 2)), cast(0 as decimal(7, 2)), cr_return_amount, cr_net_loss
        from catalog_returns) r
    join date_dim on d_date_sk = date_sk
    join catalog_page on cp_catalog_page_sk = page_sk
    where d_date between date '2000-08-23' and date '2000-09-06'
    group by cp_catalog_page_id)
select channel, id, sum(sales) as sales, sum(returns_) as returns_, sum(profit) as profit
from (
    select 'store channel' as channel, s_store_id as id, sales, returns_, profit - loss as profit from ssr
    union all
    select 'catalog channel', cp_catalog_page_id, sales, returns_, profit - loss from csr) x
group by rollup(channel, id)
-- 7
select i_item_id, avg(ss_quantity) as agg1, avg(ss_list_price) as agg2, avg(ss_coupon_amt) as agg3, avg(ss_sales_price) as agg4
from store_sales, customer_demographics, date_dim, item, promotion
where ss_sold_date_sk = d_date_sk and ss_item_sk = i_item_sk and ss_cdemo_sk = cd_demo_sk and ss_promo_sk = p_promo_sk
    and cd_gender = 'M' and cd_marital_status = 'S' and cd_education_status = 'College'
    and (p_channel_email = 'N' or p_channel_event = 'N') and d_year = 2000
group by i_item_id
-- 9
select
    case when (select count(*) from store_sales where ss_quantity between 1 and 20) > 74129
        then (select avg(ss_ext_discount_amt) from store_sales where ss_quantity between 1 and 20)
        else (select avg(ss_net_paid) from store_sales where ss_quantity between 1 and 20) end as bucket1,
    case when (select count(*) from store_sales where ss_quantity between 21 and 40) > 122840
        then (select avg(ss_ext_discount_amt) from store_sales where ss_quantity between 21 and 40)
        else (select avg(ss_net_paid) from store_sales where ss_quantity between 21 and 40) end as bucket2,
    case when (select count(*) from store_sales where ss_quantity between 41 and 60) > 56580
        then (select avg(ss_ext_discount_amt) from store_sales where ss_quantity between 41 and 60)
        else (select avg(ss_net_paid) from store_sales where ss_quantity between 41 and 60) end as bucket3
from reason
where r_reason_sk = 1
-- 11
with year_total as (
    select c_customer_id as customer_id, c_first_name as first_name, c_last_name as last_name,
        c_preferred_cust_flag as flag, d_year as dyear, sum(ss_ext_list_price - ss_ext_discount_amt) as total, 's' as sale_type
    from customer
    join store_sales on ss_customer_sk = c_customer_sk
    join date_dim on d_date_sk = ss_sold_date_sk
    group by c_customer_id, c_first_name, c_last_name, c_preferred_cust_flag, d_year
    union all
    select c_customer_id, c_first_name, c_last_name, c_preferred_cust_flag, d_year,
        sum(ws_ext_list_price - ws_ext_discount_amt), 'w'
    from customer
    join web_sales on ws_bill_customer_sk = c_customer_sk
    join date_dim on d_date_sk = ws_sold_date_sk
    group by c_customer_id, c_first_name, c_last_name, c_preferred_cust_flag, d_year)
select s2.customer_id, s2.first_name, s2.last_name, s2.flag
from year_total s1, year_total s2, year_total w1, year_total w2
where s2.customer_id = s1.customer_id and s1.customer_id = w2.customer_id and s1.customer_id = w1.customer_id
    and s1.sale_type = 's' and w1.sale_type = 'w' and s2.sale_type = 's' and w2.sale_type = 'w'
    and s1.dyear = 2001 and s2.dyear = 2002 and w1.dyear = 2001 and w2.dyear = 2002
    and s1.total > 0 and w1.total > 0
    and case when w1.total > 0 then w2.total / w1.total else 0.0 end
        > case when s1.total > 0 then s2.total / s1.total else 0.0 end
-- 13
select avg(ss_quantity) as a, avg(ss_ext_sales_price) as b, avg(ss_ext_wholesale_cost) as c, sum(ss_ext_wholesale_cost) as d
from store_sales
join store on s_store_sk = ss_store_sk
join customer_demographics on cd_demo_sk = ss_cdemo_sk
join household_demographics on hd_demo_sk = ss_hdemo_sk
join customer_address on ca_address_sk = ss_addr_sk
join date_dim on d_date_sk = ss_sold_date_sk
where d_year = 2001 and ca_country = 'United States'
    and ((cd_marital_status = 'M' and cd_education_status = 'Advanced Degree' and ss_sales_price between 100 and 150 and hd_dep_count = 3)
        or (cd_marital_status = 'S' and cd_education_status = 'College' and ss_sales_price between 50 and 100 and hd_dep_count = 1))
    and ((ca_state in ('TX', 'OH') and ss_net_profit between 100 and 200)
        or (ca_state in ('OR', 'NM', 'KY') and ss_net_profit between 150 and 300))
-- 15
select ca_zip, sum(cs_sales_price) as total
from catalog_sales, customer, customer_address, date_dim
where cs_bill_customer_sk = c_customer_sk and c_current_addr_sk = ca_address_sk and cs_sold_date_sk = d_date_sk
    and (substr(ca_zip, 1, 5) in ('85669', '86197', '88274', '83405') or ca_state in ('CA', 'WA', 'GA') or cs_sales_price > 500)
    and d_qoy = 2 and d_year = 2001
group by ca_zip
-- 17
select i_item_id, i_item_desc, s_state, count(ss_quantity) as store_count, avg(ss_quantity) as store_avg,
    stddev_samp(ss_quantity) as store_stdev, stddev_samp(ss_quantity) / avg(ss_quantity) as store_cov,
    count(sr_return_quantity) as return_count, avg(sr_return_quantity) as return_avg,
    count(cs_quantity) as catalog_count, avg(cs_quantity) as catalog_avg, stddev_samp(cs_quantity) as catalog_stdev
from store_sales
join store_returns on sr_customer_sk = ss_customer_sk and sr_item_sk = ss_item_sk and sr_ticket_number = ss_ticket_number
join catalog_sales on cs_bill_customer_sk = sr_customer_sk and cs_item_sk = sr_item_sk
join date_dim d1 on d1.d_date_sk = ss_sold_date_sk
join date_dim d2 on d2.d_date_sk = sr_returned_date_sk
join date_dim d3 on d3.d_date_sk = cs_sold_date_sk
join store on s_store_sk = ss_store_sk
join item on i_item_sk = ss_item_sk
where d1.d_quarter_name = '2001Q1' and d2.d_quarter_name in ('2001Q1', '2001Q2', '2001Q3')
    and d3.d_quarter_name in ('2001Q1', '2001Q2', '2001Q3')
group by i_item_id, i_item_desc, s_state
-- 19
select i_brand_id, i_brand, i_manufact_id, i_manufact, sum(ss_ext_sales_price) as ext_price
from date_dim, store_sales, item, customer, customer_address, store
where d_date_sk = ss_sold_date_sk and ss_item_sk = i_item_sk and ss_customer_sk = c_customer_sk
    and c_current_addr_sk = ca_address_sk and ss_store_sk = s_store_sk
    and i_manager_id = 8 and d_moy = 11 and d_year = 1998 and substr(ca_zip, 1, 5) <> substr(s_zip, 1, 5)
group by i_brand, i_brand_id, i_manufact_id, i_manufact
-- 21
select *
from (
    select w_warehouse_name, i_item_id,
        sum(case when d_date < date '2000-03-11' then inv_quantity_on_hand else 0 end) as inv_before,
        sum(case when d_date >= date '2000-03-11' then inv_quantity_on_hand else 0 end) as inv_after
    from inventory
    join warehouse on w_warehouse_sk = inv_warehouse_sk
    join item on i_item_sk = inv_item_sk
    join date_dim on d_date_sk = inv_date_sk
    where i_current_price between 0.99 and 1.49 and d_date between date '2000-02-10' and date '2000-04-10'
    group by w_warehouse_name, i_item_id) x
where case when inv_before > 0 then inv_after / inv_before end between 2.0 / 3.0 and 3.0 / 2.0
-- 23
with frequent_ss_items as (
    select substr(i_item_desc, 1, 30) as itemdesc, i_item_sk as item_sk, d_date as solddate, count(*) as cnt
    from store_sales join date_dim on d_date_sk = ss_sold_date_sk join item on i_item_sk = ss_item_sk
    where d_year in (2000, 2001, 2002, 2003)
    group by substr(i_item_desc, 1, 30), i_item_sk, d_date
    having count(*) > 4),
max_store_sales as (
    select max(csales) as tpcds_cmax
    from (
        select c_customer_sk, sum(ss_quantity * ss_sales_price) as csales
        from store_sales join customer on c_customer_sk = ss_customer_sk join date_dim on d_date_sk = ss_sold_date_sk
        where d_year in (2000, 2001, 2002, 2003)
        group by c_customer_sk) x),
best_ss_customer as (
    select c_customer_sk, sum(ss_quantity * ss_sales_price) as ssales
    from store_sales join customer on c_customer_sk = ss_customer_sk
    group by c_customer_sk
    having sum(ss_quantity * ss_sales_price) > 0.5 * (select tpcds_cmax from max_store_sales))
select sum(sales) as total
from (
    select cs_quantity * cs_list_price as sales
    from catalog_sales join date_dim on d_date_sk = cs_sold_date_sk
    where d_year = 2000 and d_moy = 2 and cs_item_sk in (select item_sk from frequent_ss_items)
        and cs_bill_customer_sk in (select c_customer_sk from best_ss_customer)
    union all
    select ws_quantity * ws_list_price
    from web_sales join date_dim on d_date_sk = ws_sold_date_sk
    where d_year = 2000 and d_moy = 2 and ws_item_sk in (select item_sk from frequent_ss_items)
        and ws_bill_customer_sk in (select c_customer_sk from best_ss_customer)) y
-- 25
select i_item_id, i_item_desc, s_store_id, s_store_name, sum(ss_net_profit) as store_sales_profit,
    sum(sr_net_loss) as store_returns_loss, sum(cs_net_profit) as catalog_sales_profit
from store_sales, store_returns, catalog_sales, date_dim d1, date_dim d2, date_dim d3, store, item
where d1.d_moy = 4 and d1.d_year = 2001 and d1.d_date_sk = ss_sold_date_sk and i_item_sk = ss_item_sk
    and s_store_sk = ss_store_sk and ss_customer_sk = sr_customer_sk and ss_item_sk = sr_item_sk
    and ss_ticket_number = sr_ticket_number and sr_returned_date_sk = d2.d_date_sk and d2.d_moy between 4 and 10
    and d2.d_year = 2001 and sr_customer_sk = cs_bill_customer_sk and sr_item_sk = cs_item_sk
    and cs_sold_date_sk = d3.d_date_sk and d3.d_moy between 4 and 10 and d3.d_year = 2001
group by i_item_id, i_item_desc, s_store_id, s_store_name
-- 27
select i_item_id, s_state, grouping(s_state) as g_state, avg(ss_quantity) as agg1, avg(ss_list_price) as agg2,
    avg(ss_coupon_amt) as agg3, avg(ss_sales_price) as agg4
from store_sales
join customer_demographics on cd_demo_sk = ss_cdemo_sk
join date_dim on d_date_sk = ss_sold_date_sk
join store on s_store_sk = ss_store_sk
join item on i_item_sk = ss_item_sk
where cd_gender = 'M' and cd_marital_status = 'S' and cd_education_status = 'College' and d_year = 2002 and s_state = 'TN'
group by rollup(i_item_id, s_state)
-- 29
select i_item_id, i_item_desc, s_store_id, s_store_name, sum(ss_quantity) as store_sales_quantity,
    sum(sr_return_quantity) as store_returns_quantity, sum(cs_quantity) as catalog_sales_quantity
from store_sales
join store_returns on sr_customer_sk = ss_customer_sk and sr_item_sk = ss_item_sk and sr_ticket_number = ss_ticket_number
join catalog_sales on cs_bill_customer_sk = sr_customer_sk and cs_item_sk = sr_item_sk
join date_dim d1 on d1.d_date_sk = ss_sold_date_sk
join date_dim d2 on d2.d_date_sk = sr_returned_date_sk
join date_dim d3 on d3.d_date_sk = cs_sold_date_sk
join store on s_store_sk = ss_store_sk
join item on i_item_sk = ss_item_sk
where d1.d_moy = 9 and d1.d_year = 1999 and d2.d_moy between 9 and 12 and d2.d_year = 1999 and d3.d_year in (1999, 2000, 2001)
group by i_item_id, i_item_desc, s_store_id, s_store_name
-- 31
with ss as (
    select ca_county, d_qoy, d_year, sum(ss_ext_sales_price) as store_sales
    from store_sales, date_dim, customer_address
    where ss_sold_date_sk = d_date_sk and ss_addr_sk = ca_address_sk
    group by ca_county, d_qoy, d_year),
ws as (
    select ca_county, d_qoy, d_year, sum(ws_ext_sales_price) as web_sales
    from web_sales, date_dim, customer_address
    where ws_sold_date_sk = d_date_sk and ws_bill_addr_sk = ca_address_sk
    group by ca_county, d_qoy, d_year)
select ss1.ca_county, ss1.d_year, ws2.web_sales / ws1.web_sales as web_q1_q2_increase,
    ss2.store_sales / ss1.store_sales as store_q1_q2_increase, ws3.web_sales / ws2.web_sales as web_q2_q3_increase,
    ss3.store_sales / ss2.store_sales as store_q2_q3_increase
from ss ss1, ss ss2, ss ss3, ws ws1, ws ws2, ws ws3
where ss1.d_qoy = 1 and ss1.d_year = 2000 and ss1.ca_county = ss2.ca_county and ss2.d_qoy = 2 and ss2.d_year = 2000
    and ss2.ca_county = ss3.ca_county and ss3.d_qoy = 3 and ss3.d_year = 2000
    and ss1.ca_county = ws1.ca_county and ws1.d_qoy = 1 and ws1.d_year = 2000
    and ws1.ca_county = ws2.ca_county and ws2.d_qoy = 2 and ws2.d_year = 2000
    and ws1.ca_county = ws3.ca_county and ws3.d_qoy = 3 and ws3.d_year = 2000
    and case when ws1.web_sales > 0 then ws2.web_sales / ws1.web_sales end
        > case when ss1.store_sales > 0 then ss2.store_sales / ss1.store_sales end
-- 33
with ss as (
    select i_manufact_id, sum(ss_ext_sales_price) as total_sales
    from store_sales, date_dim, customer_address, item
    where i_manufact_id in (select i_manufact_id from item where i_category = 'Electronics')
        and ss_item_sk = i_item_sk and ss_sold_date_sk = d_date_sk and d_year = 1998 and d_moy = 5
        and ss_addr_sk = ca_address_sk and ca_gmt_offset = -5
    group by i_manufact_id),
cs as (
    select i_manufact_id, sum(cs_ext_sales_price) as total_sales
    from catalog_sales, date_dim, customer_address, item
    where i_manufact_id in (select i_manufact_id from item where i_category = 'Electronics')
        and cs_item_sk = i_item_sk and cs_sold_date_sk = d_date_sk and d_year = 1998 and d_moy = 5
        and cs_bill_addr_sk = ca_address_sk and ca_gmt_offset = -5
    group by i_manufact_id),
ws as (
    select i_manufact_id, sum(ws_ext_sales_price) as total_sales
    from web_sales, date_dim, customer_address, item
    where i_manufact_id in (select i_manufact_id from item where i_category = 'Electronics')
        and ws_item_sk = i_item_sk and ws_sold_date_sk = d_date_sk and d_year = 1998 and d_moy = 5
        and ws_bill_addr_sk = ca_address_sk and ca_gmt_offset = -5
    group by i_manufact_id)
select i_manufact_id, sum(total_sales) as total_sales
from (select * from ss union all select * from cs union all select * from ws) x
group by i_manufact_id
-- 35
select ca_state, cd_gender, cd_marital_status, count(*) as cnt1, avg(cd_dep_count) as a1, max(cd_dep_count) as m1,
    sum(cd_dep_count) as s1, cd_dep_employed_count, count(*) as cnt2, avg(cd_dep_employed_count) as a2
from customer c, customer_address ca, customer_demographics
where c.c_current_addr_sk = ca.ca_address_sk and cd_demo_sk = c.c_current_cdemo_sk
    and exists (
        select 1 from store_sales, date_dim
        where c.c_customer_sk = ss_customer_sk and ss_sold_date_sk = d_date_sk and d_year = 2002 and d_qoy < 4)
    and (exists (
            select 1 from web_sales, date_dim
            where c.c_customer_sk = ws_bill_customer_sk and ws_sold_date_sk = d_date_sk and d_year = 2002 and d_qoy < 4)
        or exists (
            select 1 from catalog_sales, date_dim
            where c.c_customer_sk = cs_ship_customer_sk and cs_sold_date_sk = d_date_sk and d_year = 2002 and d_qoy < 4))
group by ca_state, cd_gender, cd_marital_status, cd_dep_employed_count
-- 37
select i_item_id, i_item_desc, i_current_price
from item
join inventory on inv_item_sk = i_item_sk
join date_dim on d_date_sk = inv_date_sk
join catalog_sales on cs_item_sk = i_item_sk
where i_current_price between 68 and 98 and d_date between date '2000-02-01' and date '2000-04-01'
    and i_manufact_id in (677, 940, 694, 808) and inv_quantity_on_hand between 100 and 500
group by i_item_id, i_item_desc, i_current_price
-- 39
with inv as (
    select w_warehouse_name, w_warehouse_sk, i_item_sk, d_moy, stdev, mean, case mean when 0 then null else stdev / mean end as cov
    from (
        select w_warehouse_name, w_warehouse_sk, i_item_sk, d_moy, stddev_samp(inv_quantity_on_hand) as stdev,
            avg(inv_quantity_on_hand) as mean
        from inventory, item, warehouse, date_dim
        where inv_item_sk = i_item_sk and inv_warehouse_sk = w_warehouse_sk and inv_date_sk = d_date_sk and d_year = 2001
        group by w_warehouse_name, w_warehouse_sk, i_item_sk, d_moy) foo
    where case mean when 0 then 0 else stdev / mean end > 1)
select inv1.w_warehouse_sk, inv1.i_item_sk, inv1.d_moy, inv1.mean, inv1.cov, inv2.d_moy as d_moy2, inv2.mean as mean2, inv2.cov as cov2
from inv inv1, inv inv2
where inv1.i_item_sk = inv2.i_item_sk and inv1.w_warehouse_sk = inv2.w_warehouse_sk and inv1.d_moy = 1 and inv2.d_moy = 2
-- 41
select distinct i_product_name
from item i1
where i_manufact_id between 738 and 778
    and (select count(*) from item
        where i_manufact = i1.i_manufact
            and ((i_category = 'Women' and i_color in ('powder', 'khaki') and i_units in ('Ounce', 'Oz') and i_size in ('medium', 'extra large'))
                or (i_category = 'Men' and i_color in ('floral', 'deep') and i_units in ('N/A', 'Dozen') and i_size in ('petite', 'large')))) > 0
-- 43
select s_store_name, s_store_id,
    sum(case when d_day_name = 'Sunday' then ss_sales_price end) as sun_sales,
    sum(case when d_day_name = 'Monday' then ss_sales_price end) as mon_sales,
    sum(case when d_day_name = 'Saturday' then ss_sales_price end) as sat_sales
from date_dim, store_sales, store
where d_date_sk = ss_sold_date_sk and s_store_sk = ss_store_sk and s_gmt_offset = -5 and d_year = 2000
group by s_store_name, s_store_id
-- 45
select ca_zip, ca_city, sum(ws_sales_price) as total
from web_sales, customer, customer_address, date_dim, item
where ws_bill_customer_sk = c_customer_sk and c_current_addr_sk = ca_address_sk and ws_item_sk = i_item_sk
    and (substr(ca_zip, 1, 5) in ('85669', '86197', '88274', '83405')
        or i_item_id in (select i_item_id from item where i_item_sk in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)))
    and ws_sold_date_sk = d_date_sk and d_qoy = 2 and d_year = 2001
group by ca_zip, ca_city
-- 47
with v1 as (
    select i_category, i_brand, s_store_name, s_company_name, d_year, d_moy, sum(ss_sales_price) as sum_sales,
        avg(sum(ss_sales_price)) over (partition by i_category, i_brand, s_store_name, s_company_name, d_year) as avg_monthly_sales,
        rank() over (partition by i_category, i_brand, s_store_name, s_company_name order by d_year, d_moy) as rn
    from item
    join store_sales on ss_item_sk = i_item_sk
    join date_dim on d_date_sk = ss_sold_date_sk
    join store on s_store_sk = ss_store_sk
    where d_year = 1999 or (d_year = 1998 and d_moy = 12) or (d_year = 2000 and d_moy = 1)
    group by i_category, i_brand, s_store_name, s_company_name, d_year, d_moy),
v2 as (
    select v1.i_category, v1.i_brand, v1.s_store_name, v1.s_company_name, v1.d_year, v1.d_moy, v1.avg_monthly_sales,
        v1.sum_sales, before.sum_sales as psum, behind.sum_sales as nsum
    from v1
    join v1 before on v1.i_category = before.i_category and v1.i_brand = before.i_brand
        and v1.s_store_name = before.s_store_name and v1.s_company_name = before.s_company_name and v1.rn = before.rn + 1
    join v1 behind on v1.i_category = behind.i_category and v1.i_brand = behind.i_brand
        and v1.s_store_name = behind.s_store_name and v1.s_company_name = behind.s_company_name and v1.rn = behind.rn - 1)
select *
from v2
where d_year = 1999 and avg_monthly_sales > 0
    and case when avg_monthly_sales > 0 then abs(sum_sales - avg_monthly_sales) / avg_monthly_sales end > 0.1
-- 49
select 'web' as channel, item, return_ratio, return_rank, currency_rank
from (
    select item, return_ratio, currency_ratio, rank() over (order by return_ratio) as return_rank,
        rank() over (order by currency_ratio) as currency_rank
    from (
        select ws_item_sk as item,
            cast(sum(coalesce(wr_return_quantity, 0)) as decimal(15, 4)) / cast(sum(coalesce(ws_quantity, 0)) as decimal(15, 4)) as return_ratio,
            cast(sum(coalesce(wr_return_amt, 0)) as decimal(15, 4)) / cast(sum(coalesce(ws_net_paid, 0)) as decimal(15, 4)) as currency_ratio
        from web_sales
        left outer join web_returns on ws_order_number = wr_order_number and ws_item_sk = wr_item_sk
        join date_dim on d_date_sk = ws_sold_date_sk
        where wr_return_amt > 10000 and ws_net_profit > 1 and ws_net_paid > 0 and ws_quantity > 0 and d_year = 2001 and d_moy = 12
        group by ws_item_sk) in_web) web
where return_rank <= 10 or currency_rank <= 10
union
select 'store', item, return_ratio, return_rank, currency_rank
from (
    select item, return_ratio, currency_ratio, rank() over (order by return_ratio) as return_rank,
        rank() over (order by currency_ratio) as currency_rank
    from (
        select ss_item_sk as item,
            cast(sum(coalesce(sr_return_quantity, 0)) as decimal(15, 4)) / cast(sum(coalesce(ss_quantity, 0)) as decimal(15, 4)) as return_ratio,
            cast(sum(coalesce(sr_return_amt, 0)) as decimal(15, 4)) / cast(sum(coalesce(ss_net_paid, 0)) as decimal(15, 4)) as currency_ratio
        from store_sales
        left outer join store_returns on ss_ticket_number = sr_ticket_number and ss_item_sk = sr_item_sk
        join date_dim on d_date_sk = ss_sold_date_sk
        where sr_return_amt > 10000 and ss_net_profit > 1 and ss_net_paid > 0 and ss_quantity > 0 and d_year = 2001 and d_moy = 12
        group by ss_item_sk) in_store) store
where return_rank <= 10 or currency_rank <= 10
-- 51
with web_v1 as (
    select ws_item_sk as item_sk, d_date, sum(sum(ws_sales_price)) over (
        partition by ws_item_sk order by d_date rows between unbounded preceding and current row) as cume_sales
    from web_sales join date_dim on d_date_sk = ws_sold_date_sk
    where d_month_seq between 1200 and 1211 and ws_item_sk is not null
    group by ws_item_sk, d_date),
store_v1 as (
    select ss_item_sk as item_sk, d_date, sum(sum(ss_sales_price)) over (
        partition by ss_item_sk order by d_date rows between unbounded preceding and current row) as cume_sales
    from store_sales join date_dim on d_date_sk = ss_sold_date_sk
    where d_month_seq between 1200 and 1211 and ss_item_sk is not null
    group by ss_item_sk, d_date)
select *
from (
    select item_sk, d_date, web_sales, store_sales,
        max(web_sales) over (partition by item_sk order by d_date rows between unbounded preceding and current row) as web_cumulative,
        max(store_sales) over (partition by item_sk order by d_date rows between unbounded preceding and current row) as store_cumulative
    from (
        select coalesce(web.item_sk, store.item_sk) as item_sk, coalesce(web.d_date, store.d_date) as d_date,
            web.cume_sales as web_sales, store.cume_sales as store_sales
        from web_v1 web
        full outer join store_v1 store on web.item_sk = store.item_sk and web.d_date = store.d_date) x) y
where web_cumulative > store_cumulative
-- 53
select *
from (
    select i_manufact_id, sum(ss_sales_price) as sum_sales,
        avg(sum(ss_sales_price)) over (partition by i_manufact_id) as avg_quarterly_sales
    from item, store_sales, date_dim, store
    where ss_item_sk = i_item_sk and ss_sold_date_sk = d_date_sk and ss_store_sk = s_store_sk
        and d_month_seq in (1200, 1201, 1202, 1203, 1204, 1205)
        and i_category in ('Books', 'Children', 'Electronics') and i_class in ('personal', 'portable', 'reference', 'self-help')
    group by i_manufact_id, d_qoy) x
where case when avg_quarterly_sales > 0 then abs(sum_sales - avg_quarterly_sales) / avg_quarterly_sales end > 0.1
-- 55
select i_brand_id as brand_id, i_brand as brand, sum(ss_ext_sales_price) as ext_price
from date_dim
join store_sales on ss_sold_date_sk = d_date_sk
join item on i_item_sk = ss_item_sk
where i_manager_id = 28 and d_moy = 11 and d_year = 1999
group by i_brand, i_brand_id
-- 57
with v1 as (
    select i_category, i_brand, cc_name, d_year, d_moy, sum(cs_sales_price) as sum_sales,
        avg(sum(cs_sales_price)) over (partition by i_category, i_brand, cc_name, d_year) as avg_monthly_sales,
        rank() over (partition by i_category, i_brand, cc_name order by d_year, d_moy) as rn
    from item, catalog_sales, date_dim, call_center
    where cs_item_sk = i_item_sk and cs_sold_date_sk = d_date_sk and cc_call_center_sk = cs_call_center_sk
        and (d_year = 1999 or (d_year = 1998 and d_moy = 12) or (d_year = 2000 and d_moy = 1))
    group by i_category, i_brand, cc_name, d_year, d_moy)
select v1.i_category, v1.i_brand, v1.cc_name, v1.d_year, v1.d_moy, v1.avg_monthly_sales, v1.sum_sales,
    before.sum_sales as psum, behind.sum_sales as nsum
from v1, v1 before, v1 behind
where v1.i_category = before.i_category and v1.i_category = behind.i_category and v1.i_brand = before.i_brand
    and v1.i_brand = behind.i_brand and v1.cc_name = before.cc_name and v1.cc_name = behind.cc_name
    and v1.rn = before.rn + 1 and v1.rn = behind.rn - 1 and v1.d_year = 1999 and v1.avg_monthly_sales > 0
    and case when v1.avg_monthly_sales > 0 then abs(v1.sum_sales - v1.avg_monthly_sales) / v1.avg_monthly_sales end > 0.1
-- 59
with wss as (
    select d_week_seq, ss_store_sk,
        sum(case when d_day_name = 'Sunday' then ss_sales_price end) as sun_sales,
        sum(case when d_day_name = 'Wednesday' then ss_sales_price end) as wed_sales,
        sum(case when d_day_name = 'Saturday' then ss_sales_price end) as sat_sales
    from store_sales join date_dim on d_date_sk = ss_sold_date_sk
    group by d_week_seq, ss_store_sk)
select y.s_store_name, y.s_store_id, y.d_week_seq, y.sun_sales / x.sun_sales as sun_ratio,
    y.wed_sales / x.wed_sales as wed_ratio, y.sat_sales / x.sat_sales as sat_ratio
from (
    select s_store_name, wss.d_week_seq, s_store_id, sun_sales, wed_sales, sat_sales
    from wss join store on s_store_sk = ss_store_sk join date_dim d on d.d_week_seq = wss.d_week_seq
    where d.d_month_seq between 1212 and 1223) y,
    (select s_store_name, wss.d_week_seq, s_store_id, sun_sales, wed_sales, sat_sales
    from wss join store on s_store_sk = ss_store_sk join date_dim d on d.d_week_seq = wss.d_week_seq
    where d.d_month_seq between 1224 and 1235) x
where y.s_store_id = x.s_store_id and y.d_week_seq = x.d_week_seq - 52
-- 61
select promotions, total, cast(promotions as decimal(15, 4)) / cast(total as decimal(15, 4)) * 100 as ratio
from (
    select sum(ss_ext_sales_price) as promotions
    from store_sales, store, promotion, date_dim, customer, customer_address, item
    where ss_sold_date_sk = d_date_sk and ss_store_sk = s_store_sk and ss_promo_sk = p_promo_sk
        and ss_customer_sk = c_customer_sk and ca_address_sk = c_current_addr_sk and ss_item_sk = i_item_sk
        and ca_gmt_offset = -5 and i_category = 'Jewelry'
        and (p_channel_dmail = 'Y' or p_channel_email = 'Y' or p_channel_tv = 'Y') and d_year = 1998 and d_moy = 11) promotional_sales
cross join (
    select sum(ss_ext_sales_price) as total
    from store_sales, store, date_dim, customer, customer_address, item
    where ss_sold_date_sk = d_date_sk and ss_store_sk = s_store_sk and ss_customer_sk = c_customer_sk
        and ca_address_sk = c_current_addr_sk and ss_item_sk = i_item_sk and ca_gmt_offset = -5
        and i_category = 'Jewelry' and d_year = 1998 and d_moy = 11) all_sales
-- 63
select *
from (
    select i_manager_id, sum(ss_sales_price) as sum_sales,
        avg(sum(ss_sales_price)) over (partition by i_manager_id) as avg_monthly_sales
    from item
    join store_sales on ss_item_sk = i_item_sk
    join date_dim on d_date_sk = ss_sold_date_sk
    join store on s_store_sk = ss_store_sk
    where d_month_seq in (1200, 1201, 1202, 1203, 1204, 1205) and i_category in ('Books', 'Children', 'Electronics')
    group by i_manager_id, d_moy) x
where case when avg_monthly_sales > 0 then abs(sum_sales - avg_monthly_sales) / avg_monthly_sales end > 0.1
-- 65
with sa as (
    select ss_store_sk, ss_item_sk, sum(ss_sales_price) as revenue
    from store_sales join date_dim on d_date_sk = ss_sold_date_sk
    where d_month_seq between 1176 and 1187
    group by ss_store_sk, ss_item_sk)
select s_store_name, i_item_desc, sc.revenue, i_current_price, i_wholesale_cost, i_brand
from store, item, (select ss_store_sk, avg(revenue) as ave from sa group by ss_store_sk) sb, sa sc
where sb.ss_store_sk = sc.ss_store_sk and sc.revenue <= 0.1 * sb.ave and s_store_sk = sc.ss_store_sk and i_item_sk = sc.ss_item_sk
-- 67
select *
from (
    select i_category, i_class, i_brand, d_year, d_qoy, s_store_id, sumsales,
        rank() over (partition by i_category order by sumsales desc) as rk
    from (
        select i_category, i_class, i_brand, d_year, d_qoy, s_store_id, sum(coalesce(ss_sales_price * ss_quantity, 0)) as sumsales
        from store_sales, date_dim, store, item
        where ss_sold_date_sk = d_date_sk and ss_item_sk = i_item_sk and ss_store_sk = s_store_sk and d_month_seq between 1200 and 1211
        group by rollup(i_category, i_class, i_brand, d_year, d_qoy, s_store_id)) dw1) dw2
where rk <= 100
-- 69
select cd_gender, cd_marital_status, cd_education_status, count(*) as cnt1, cd_purchase_estimate, count(*) as cnt2
from customer c
join customer_address ca on c.c_current_addr_sk = ca.ca_address_sk
join customer_demographics on cd_demo_sk = c.c_current_cdemo_sk
where ca_state in ('KY', 'GA', 'NM')
    and exists (
        select 1 from store_sales join date_dim on ss_sold_date_sk = d_date_sk
        where c.c_customer_sk = ss_customer_sk and d_year = 2001 and d_moy between 4 and 6)
    and not exists (
        select 1 from web_sales join date_dim on ws_sold_date_sk = d_date_sk
        where c.c_customer_sk = ws_bill_customer_sk and d_year = 2001 and d_moy between 4 and 6)
    and not exists (
        select 1 from catalog_sales join date_dim on cs_sold_date_sk = d_date_sk
        where c.c_customer_sk = cs_ship_customer_sk and d_year = 2001 and d_moy between 4 and 6)
group by cd_gender, cd_marital_status, cd_education_status, cd_purchase_estimate
-- 71
select i_brand_id, i_brand, t_hour, t_minute, sum(ext_price) as ext_price
from item
join (
    select ws_ext_sales_price as ext_price, ws_item_sk as sold_item_sk, ws_sold_time_sk as time_sk
    from web_sales join date_dim on d_date_sk = ws_sold_date_sk where d_moy = 11 and d_year = 1999
    union all
    select cs_ext_sales_price, cs_item_sk, cs_sold_time_sk
    from catalog_sales join date_dim on d_date_sk = cs_sold_date_sk where d_moy = 11 and d_year = 1999
    union all
    select ss_ext_sales_price, ss_item_sk, ss_sold_time_sk
    from store_sales join date_dim on d_date_sk = ss_sold_date_sk where d_moy = 11 and d_year = 1999) tmp on sold_item_sk = i_item_sk
join time_dim on t_time_sk = time_sk
where i_manager_id = 1 and (t_meal_time = 'breakfast' or t_meal_time = 'dinner')
group by i_brand, i_brand_id, t_hour, t_minute
-- 73
select c_last_name, c_first_name, c_salutation, c_preferred_cust_flag, ss_ticket_number, cnt
from (
    select ss_ticket_number, ss_customer_sk, count(*) as cnt
    from store_sales, date_dim, store, household_demographics
    where ss_sold_date_sk = d_date_sk and ss_store_sk = s_store_sk and ss_hdemo_sk = hd_demo_sk and d_dom between 1 and 2
        and hd_buy_potential in ('>10000', 'unknown') and hd_vehicle_count > 0
        and case when hd_vehicle_count > 0 then hd_dep_count / hd_vehicle_count end > 1 and d_year in (1999, 2000, 2001)
    group by ss_ticket_number, ss_customer_sk) dj
join customer on c_customer_sk = ss_customer_sk
where cnt between 1 and 5
-- 75
with all_sales as (
    select d_year, i_brand_id, i_class_id, i_category_id, i_manufact_id, sum(sales_cnt) as sales_cnt, sum(sales_amt) as sales_amt
    from (
        select d_year, i_brand_id, i_class_id, i_category_id, i_manufact_id,
            cs_quantity - coalesce(cr_return_quantity, 0) as sales_cnt, cs_ext_sales_price - coalesce(cr_return_amount, 0.0) as sales_amt
        from catalog_sales
        join item on i_item_sk = cs_item_sk
        join date_dim on d_date_sk = cs_sold_date_sk
        left join catalog_returns on cs_order_number = cr_order_number and cs_item_sk = cr_item_sk
        where i_category = 'Books'
        union
        select d_year, i_brand_id, i_class_id, i_category_id, i_manufact_id,
            ss_quantity - coalesce(sr_return_quantity, 0), ss_ext_sales_price - coalesce(sr_return_amt, 0.0)
        from store_sales
        join item on i_item_sk = ss_item_sk
        join date_dim on d_date_sk = ss_sold_date_sk
        left join store_returns on ss_ticket_number = sr_ticket_number and ss_item_sk = sr_item_sk
        where i_category = 'Books') sales_detail
    group by d_year, i_brand_id, i_class_id, i_category_id, i_manufact_id)
select prev.d_year as prev_year, curr.d_year as year_, curr.i_brand_id, curr.i_class_id, curr.i_category_id, curr.i_manufact_id,
    prev.sales_cnt as prev_cnt, curr.sales_cnt as curr_cnt, curr.sales_cnt - prev.sales_cnt as cnt_diff, curr.sales_amt - prev.sales_amt as amt_diff
from all_sales curr, all_sales prev
where curr.i_brand_id = prev.i_brand_id and curr.i_class_id = prev.i_class_id and curr.i_category_id = prev.i_category_id
    and curr.i_manufact_id = prev.i_manufact_id and curr.d_year = 2002 and prev.d_year = 2001
    and cast(curr.sales_cnt as decimal(17, 2)) / cast(prev.sales_cnt as decimal(17, 2)) < 0.9
-- 77
with ss as (
    select s_store_sk, sum(ss_ext_sales_price) as sales, sum(ss_net_profit) as profit
    from store_sales, date_dim, store
    where ss_sold_date_sk = d_date_sk and d_date between date '2000-08-23' and date '2000-09-22' and ss_store_sk = s_store_sk
    group by s_store_sk),
sr as (
    select s_store_sk, sum(sr_return_amt) as returns_, sum(sr_net_loss) as profit_loss
    from store_returns, date_dim, store
    where sr_returned_date_sk = d_date_sk and d_date between date '2000-08-23' and date '2000-09-22' and sr_store_sk = s_store_sk
    group by s_store_sk),
cs as (
    select cs_call_center_sk, sum(cs_ext_sales_price) as sales, sum(cs_net_profit) as profit
    from catalog_sales, date_dim
    where cs_sold_date_sk = d_date_sk and d_date between date '2000-08-23' and date '2000-09-22'
    group by cs_call_center_sk),
cr as (
    select sum(cr_return_amount) as returns_, sum(cr_net_loss) as profit_loss
    from catalog_returns, date_dim
    where cr_returned_date_sk = d_date_sk and d_date between date '2000-08-23' and date '2000-09-22')
select channel, id, sum(sales) as sales, sum(returns_) as returns_, sum(profit) as profit
from (
    select 'store channel' as channel, ss.s_store_sk as id, sales, coalesce(returns_, 0) as returns_, profit - coalesce(profit_loss, 0) as profit
    from ss left join sr on ss.s_store_sk = sr.s_store_sk
    union all
    select 'catalog channel', cs_call_center_sk, sales, returns_, profit - profit_loss from cs cross join cr) x
group by rollup(channel, id)
-- 79
select c_last_name, c_first_name, substr(s_city, 1, 30) as city, ss_ticket_number, amt, profit
from (
    select ss_ticket_number, ss_customer_sk, s_city, sum(ss_coupon_amt) as amt, sum(ss_net_profit) as profit
    from store_sales, date_dim, store, household_demographics
    where ss_sold_date_sk = d_date_sk and ss_store_sk = s_store_sk and ss_hdemo_sk = hd_demo_sk
        and (hd_dep_count = 6 or hd_vehicle_count > 2) and d_dow = 1 and d_year in (1999, 2000, 2001)
        and s_number_employees between 200 and 295
    group by ss_ticket_number, ss_customer_sk, ss_addr_sk, s_city) ms,
    customer
where ss_customer_sk = c_customer_sk
-- 81
with customer_total_return as (
    select cr_returning_customer_sk as customer_sk, ca_state as state, sum(cr_return_amt_inc_tax) as total_return
    from catalog_returns, date_dim, customer_address
    where cr_returned_date_sk = d_date_sk and d_year = 2000 and cr_returning_addr_sk = ca_address_sk
    group by cr_returning_customer_sk, ca_state)
select c_customer_id, c_salutation, c_first_name, c_last_name, ca_street_number, ca_street_name, ca_city, ca_zip, total_return
from customer_total_return ctr1, customer_address, customer
where ctr1.total_return > (
        select avg(ctr2.total_return) * 1.2 from customer_total_return ctr2 where ctr1.state = ctr2.state)
    and ca_address_sk = c_current_addr_sk and ca_state = 'GA' and ctr1.customer_sk = c_customer_sk
-- 83
with sr_items as (
    select i_item_id as item_id, sum(sr_return_quantity) as sr_item_qty
    from store_returns, item, date_dim
    where sr_item_sk = i_item_sk and sr_returned_date_sk = d_date_sk
        and d_date in (
            select d_date from date_dim
            where d_week_seq in (
                select d_week_seq from date_dim where d_date in (date '2000-06-30', date '2000-09-27', date '2000-11-17')))
    group by i_item_id),
cr_items as (
    select i_item_id as item_id, sum(cr_return_quantity) as cr_item_qty
    from catalog_returns, item, date_dim
    where cr_item_sk = i_item_sk and cr_returned_date_sk = d_date_sk
        and d_date in (
            select d_date from date_dim
            where d_week_seq in (
                select d_week_seq from date_dim where d_date in (date '2000-06-30', date '2000-09-27', date '2000-11-17')))
    group by i_item_id)
select sr_items.item_id, sr_item_qty, sr_item_qty / (sr_item_qty + cr_item_qty) / 2.0 * 100 as sr_dev, cr_item_qty,
    (sr_item_qty + cr_item_qty) / 2.0 as average
from sr_items join cr_items on sr_items.item_id = cr_items.item_id
-- 85
select substr(r_reason_desc, 1, 20) as reason, avg(ws_quantity) as quantity, avg(wr_refunded_cash) as cash, avg(wr_fee) as fee
from web_sales, web_returns, web_page, customer_demographics cd1, customer_demographics cd2, customer_address, date_dim, reason
where ws_web_page_sk = wp_web_page_sk and ws_item_sk = wr_item_sk and ws_order_number = wr_order_number
    and ws_sold_date_sk = d_date_sk and d_year = 2000 and cd1.cd_demo_sk = wr_refunded_cdemo_sk
    and cd2.cd_demo_sk = wr_returning_cdemo_sk and ca_address_sk = wr_refunded_addr_sk and r_reason_sk = wr_reason_sk
    and ((cd1.cd_marital_status = 'M' and cd1.cd_marital_status = cd2.cd_marital_status
            and cd1.cd_education_status = cd2.cd_education_status and ws_sales_price between 100.00 and 150.00)
        or (cd1.cd_marital_status = 'S' and cd1.cd_marital_status = cd2.cd_marital_status and ws_sales_price between 50.00 and 100.00))
    and ((ca_country = 'United States' and ca_state in ('IN', 'OH', 'NJ') and ws_net_profit between 100 and 200)
        or (ca_country = 'United States' and ca_state in ('WI', 'CT', 'KY') and ws_net_profit between 150 and 300))
group by r_reason_desc
-- 87
select count(*) as customers
from (
    (select distinct c_last_name, c_first_name, d_date
    from store_sales, date_dim, customer
    where ss_sold_date_sk = d_date_sk and ss_customer_sk = c_customer_sk and d_month_seq between 1200 and 1211)
    except
    (select distinct c_last_name, c_first_name, d_date
    from catalog_sales, date_dim, customer
    where cs_sold_date_sk = d_date_sk and cs_bill_customer_sk = c_customer_sk and d_month_seq between 1200 and 1211)
    except
    (select distinct c_last_name, c_first_name, d_date
    from web_sales, date_dim, customer
    where ws_sold_date_sk = d_date_sk and ws_bill_customer_sk = c_customer_sk and d_month_seq between 1200 and 1211)) cool_cust
-- 89
select *
from (
    select i_category, i_class, i_brand, s_store_name, s_company_name, d_moy, sum(ss_sales_price) as sum_sales,
        avg(sum(ss_sales_price)) over (partition by i_category, i_brand, s_store_name, s_company_name) as avg_monthly_sales
    from item, store_sales, date_dim, store
    where ss_item_sk = i_item_sk and ss_sold_date_sk = d_date_sk and ss_store_sk = s_store_sk and d_year = 1999
        and ((i_category in ('Books', 'Electronics', 'Sports') and i_class in ('computers', 'stereo', 'football'))
            or (i_category in ('Men', 'Jewelry', 'Women') and i_class in ('shirts', 'birdal', 'dresses')))
    group by i_category, i_class, i_brand, s_store_name, s_company_name, d_moy) x
where case when avg_monthly_sales <> 0 then abs(sum_sales - avg_monthly_sales) / avg_monthly_sales end > 0.1
-- 91
select cc_call_center_id, cc_name, cc_manager, sum(cr_net_loss) as returns_loss
from call_center, catalog_returns, date_dim, customer, customer_address, customer_demographics, household_demographics
where cr_call_center_sk = cc_call_center_sk and cr_returned_date_sk = d_date_sk and cr_returning_customer_sk = c_customer_sk
    and cd_demo_sk = c_current_cdemo_sk and hd_demo_sk = c_current_hdemo_sk and ca_address_sk = c_current_addr_sk
    and d_year = 1998 and d_moy = 11 and hd_buy_potential like 'Unknown%' and ca_gmt_offset = -7
    and ((cd_marital_status = 'M' and cd_education_status = 'Unknown') or (cd_marital_status = 'W' and cd_education_status = 'Advanced Degree'))
group by cc_call_center_id, cc_name, cc_manager, cd_marital_status, cd_education_status
-- 93
select ss_customer_sk, sum(act_sales) as sumsales
from (
    select ss_customer_sk,
        case when sr_return_quantity is not null then (ss_quantity - sr_return_quantity) * ss_sales_price
            else ss_quantity * ss_sales_price end as act_sales
    from store_sales
    left outer join store_returns on sr_item_sk = ss_item_sk and sr_ticket_number = ss_ticket_number,
        reason
    where sr_reason_sk = r_reason_sk and r_reason_desc = 'reason 28') t
group by ss_customer_sk
-- 95
with ws_wh as (
    select ws1.ws_order_number as order_number, ws1.ws_warehouse_sk as wh1, ws2.ws_warehouse_sk as wh2
    from web_sales ws1, web_sales ws2
    where ws1.ws_order_number = ws2.ws_order_number and ws1.ws_warehouse_sk <> ws2.ws_warehouse_sk)
select count(distinct ws_order_number) as order_count, sum(ws_ext_ship_cost) as shipping_cost, sum(ws_net_profit) as net_profit
from web_sales ws1, date_dim, customer_address, web_site
where d_date between date '1999-02-01' and date '1999-04-02' and ws1.ws_ship_date_sk = d_date_sk
    and ws1.ws_ship_addr_sk = ca_address_sk and ca_state = 'IL' and ws1.ws_web_site_sk = web_site_sk and web_company_name = 'pri'
    and ws1.ws_order_number in (select order_number from ws_wh)
    and ws1.ws_order_number in (select wr_order_number from web_returns, ws_wh where wr_order_number = ws_wh.order_number)
-- 97
with ssci as (
    select ss_customer_sk as customer_sk, ss_item_sk as item_sk
    from store_sales join date_dim on d_date_sk = ss_sold_date_sk
    where d_month_seq between 1200 and 1211
    group by ss_customer_sk, ss_item_sk),
csci as (
    select cs_bill_customer_sk as customer_sk, cs_item_sk as item_sk
    from catalog_sales join date_dim on d_date_sk = cs_sold_date_sk
    where d_month_seq between 1200 and 1211
    group by cs_bill_customer_sk, cs_item_sk)
select sum(case when ssci.customer_sk is not null and csci.customer_sk is null then 1 else 0 end) as store_only,
    sum(case when ssci.customer_sk is null and csci.customer_sk is not null then 1 else 0 end) as catalog_only,
    sum(case when ssci.customer_sk is not null and csci.customer_sk is not null then 1 else 0 end) as store_and_catalog
from ssci
full outer join csci on ssci.customer_sk = csci.customer_sk and ssci.item_sk = csci.item_sk
-- 99
select substr(w_warehouse_name, 1, 20) as warehouse, sm_type, cc_name,
    sum(case when cs_ship_date_sk - cs_sold_date_sk <= 30 then 1 else 0 end) as days_30,
    sum(case when cs_ship_date_sk - cs_sold_date_sk > 30 and cs_ship_date_sk - cs_sold_date_sk <= 60 then 1 else 0 end) as days_60,
    sum(case when cs_ship_date_sk - cs_sold_date_sk > 120 then 1 else 0 end) as more_days
from catalog_sales
join warehouse on w_warehouse_sk = cs_warehouse_sk
join ship_mode on sm_ship_mode_sk = cs_ship_mode_sk
join call_center on cc_call_center_sk = cs_call_center_sk
join date_dim on d_date_sk = cs_ship_date_sk
where d_month_seq between 1200 and 1211
group by substr(w_warehouse_name, 1, 20), sm_type, cc_name
