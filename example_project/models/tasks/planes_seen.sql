-- De-duplication: every plane once, with the first report that named it.
on input {{ ref('stg_flights') }} as (
  insert into {{ this }}
  select tailnum, min(flight_date) as first_flight, count(*) as reports
  from {{ ref('stg_flights') }} came
  where tailnum is not null and not exists (select 1 from {{ this }} seen where seen.tailnum = came.tailnum)
  group by tailnum
)
