-- How late each carrier leaves, by hour of the day, in dry and in wet weather.
select
  carrier, airline, hour(time_hour) as hour, coalesce(precip > 0, false) as wet,
  count(*) as flights,
  count(dep_delay) as departed,
  cast(avg(dep_delay) as decimal(10, 2)) as mean_delay,
  sum(if(dep_delay > 30, 1, 0)) as late_flights
from {{ ref('fct_flights') }}
group by all
