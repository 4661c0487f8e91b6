select w_c_id, w_s_symb, w_dts, w_action, cdc_dsn
from {{ source('tpcdi', 'staging_watch_history') }}
{{ only_newer('cdc_dsn') }}
