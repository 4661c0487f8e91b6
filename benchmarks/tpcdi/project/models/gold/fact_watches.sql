select
  c.sk_customer_id, s.sk_security_id, w.customer_id, w.symbol,
  cast(w.placed_timestamp as date) as date_placed, cast(w.removed_timestamp as date) as date_removed,
  1 as watch_count
from {{ ref('watches') }} w
join {{ ref('dim_customer') }} c on c.customer_id = w.customer_id and {{ valid_at('c', 'w.placed_timestamp') }}
join {{ ref('dim_security') }} s on s.symbol = w.symbol and {{ valid_at('s', 'w.placed_timestamp') }}
