select tx_id, tx_name, tx_rate
from {{ source('tpcdi', 'batch1_tax_rate') }}
