select cast(hh_h_t_id as bigint) as hh_h_t_id, cast(hh_t_id as bigint) as hh_t_id, hh_before_qty, hh_after_qty, cdc_dsn
from {{ source('tpcdi', 'staging_holding_history') }}
{{ only_newer('cdc_dsn') }}
