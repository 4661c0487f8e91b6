select st_id, st_name
from {{ source('tpcdi', 'batch1_status_type') }}
