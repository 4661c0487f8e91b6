{{ config(assert_not_null=['carrier', 'origin', 'dest'], file_format='delta') }}
-- One row a flight: its newest version, with the plane that flew and the weather at departure.
-- rank() and DISTINCT rather than row_number(), which may choose another row of two each time it is
-- computed: with it every run would read all flights.
with newest as (
  select distinct * except (place)
  from (
    select *, rank() over (
      partition by flight_date, carrier, flight, origin, sched_dep_time order by version desc
    ) as place
    from {{ ref('stg_flights') }}
  )
  where place = 1
)
select
  f.flight_date, f.carrier, a.name as airline, f.flight, f.origin, f.dest, f.sched_dep_time,
  f.dep_delay, f.arr_delay, f.air_time, f.distance, f.tailnum, p.manufacturer, p.seats,
  w.temp, w.wind_speed, w.precip, w.visib, f.time_hour
from newest f
left join {{ ref('airlines') }} a on a.carrier = f.carrier
left join {{ ref('dim_planes') }} p on p.tailnum = f.tailnum
left join {{ ref('stg_weather') }} w on w.origin = f.origin and w.time_hour = f.time_hour
