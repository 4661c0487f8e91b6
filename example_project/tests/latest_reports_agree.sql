-- The task and the view tell the same of every flight, each in its own way.
select *
from {{ ref('latest_reports') }} reported
full join {{ ref('fct_flights') }} f
  on f.flight_date = reported.flight_date and f.carrier = reported.carrier and f.flight = reported.flight
  and f.origin = reported.origin and f.sched_dep_time = reported.sched_dep_time
where not f.dep_delay <=> reported.dep_delay
