select ct_ca_id, ct_dts, ct_amt, ct_name, cdc_dsn
from {{ source('tpcdi', 'staging_cash_transaction') }}
{{ only_newer('cdc_dsn') }}
