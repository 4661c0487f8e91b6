-- An upsert: of all reports of a flight, the newest. Its cost is that of the files that arrived, not of all flights.
on input {{ ref('stg_flights') }} as (
  merge into {{ this }} held
  using (
    select flight_date, carrier, flight, origin, sched_dep_time, max_by(dep_delay, version) as dep_delay, max(version) as version
    from {{ ref('stg_flights') }}
    group by all
  ) came
    on held.flight_date = came.flight_date and held.carrier = came.carrier and held.flight = came.flight
    and held.origin = came.origin and held.sched_dep_time = came.sched_dep_time
  when matched and came.version > held.version then update set *
  when not matched then insert *
)
