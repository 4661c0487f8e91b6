-- One row a plane: the newest version that arrived.
select tailnum, built, manufacturer, model, seats
from (
  select *, row_number() over (partition by tailnum order by version desc) as newest
  from {{ ref('stg_planes') }}
)
where newest = 1
