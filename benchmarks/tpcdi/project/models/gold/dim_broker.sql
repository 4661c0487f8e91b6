select
  {{ surrogate_key(['employee_id']) }} as sk_broker_id,
  cast(employee_id as bigint) as broker_id, cast(manager_id as bigint) as manager_id, first_name, last_name,
  middle_initial, job_code, branch, office, phone
from {{ ref('employees') }}
