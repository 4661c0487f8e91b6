select * from {{ ref('date') }}
