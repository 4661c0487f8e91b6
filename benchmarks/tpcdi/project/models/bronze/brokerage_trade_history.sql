select th_t_id, th_dts, th_st_id
from {{ source('tpcdi', 'batch1_trade_history') }}
