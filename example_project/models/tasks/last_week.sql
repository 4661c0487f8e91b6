-- A window: every report of the flights of the last seven days.
from retain {{ ref('stg_flights') }} while (
  flight_date > (select max(flight_date) from {{ ref('fct_flights') }}) - interval 7 days
)
