-- An audit log: which departures were corrected, when, from what to what.
on input {{ ref('fct_flights') }} as (
  insert into {{ this }}
  select {{ mv_now() }} as corrected_at, n.flight_date, n.carrier, n.flight, n.origin, n.sched_dep_time,
    o.dep_delay as was, n.dep_delay as became
  from {{ mv_deletes(ref('fct_flights')) }} o
  join {{ ref('fct_flights') }} n
    on (n.flight_date, n.carrier, n.flight, n.origin, n.sched_dep_time)
     = (o.flight_date, o.carrier, o.flight, o.origin, o.sched_dep_time)
)
