select dm_date, dm_s_symb, dm_close, dm_high, dm_low, dm_vol, cdc_dsn
from {{ source('tpcdi', 'staging_daily_market') }}
{{ only_newer('cdc_dsn') }}
