-- Every version of every flight, as the files brought them.
select
  make_date(year, month, day) as flight_date, carrier, flight, origin, dest, tailnum,
  sched_dep_time, dep_delay, arr_delay, air_time, distance, time_hour, version
from parquet.`{{ var('arrivals') }}/flights`
