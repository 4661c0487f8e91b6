-- One row a plane: the newest version that arrived.
select distinct tailnum, built, manufacturer, model, seats
from (
  select *, rank() over (partition by tailnum order by version desc) as place
  from {{ ref('stg_planes') }}
)
where place = 1
