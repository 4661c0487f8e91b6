select flight_date
from {{ ref('last_week') }}
where flight_date <= (select max(flight_date) from {{ ref('fct_flights') }}) - interval 7 days
