select
  e.ca_id as account_id, e.action_type, e.c_id as customer_id, e.ca_b_id as broker_id, e.ca_name as account_desc,
  e.ca_tax_st as tax_status, e.c_tax_id as tax_id, e.c_gndr as gender, e.c_tier as tier, e.c_dob as dob,
  e.c_l_name as last_name, e.c_f_name as first_name, e.c_m_name as middle_name,
  e.c_adline1 as address_line1, e.c_adline2 as address_line2, e.c_zipcode as postal_code, e.c_city as city,
  e.c_state_prov as state_province, e.c_ctry as country, e.c_prim_email as email1, e.c_alt_email as email2,
  e.c_phone_1 as phone1, e.c_phone_2 as phone2, e.c_phone_3 as phone3,
  local.tx_name as local_tax_rate_desc, local.tx_rate as local_tax_rate,
  national.tx_name as national_tax_rate_desc, national.tx_rate as national_tax_rate,
  case when e.action_type in ('CLOSEACCT', 'INACT') then 'Inactive' else 'Active' end as status,
  {{ validity('e.ca_id', 'e.action_ts') }}
from {{ ref('crm_customer_mgmt') }} e
left join {{ ref('reference_tax_rate') }} national on national.tx_id = e.c_nat_tx_id
left join {{ ref('reference_tax_rate') }} local on local.tx_id = e.c_lcl_tx_id
where e.ca_id is not null
