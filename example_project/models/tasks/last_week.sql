-- A window: the flights of the last seven days that were reported.
from retain {{ ref('fct_flights') }} while (
  flight_date > (select max(flight_date) from {{ ref('stg_flights') }}) - interval 7 days
)
