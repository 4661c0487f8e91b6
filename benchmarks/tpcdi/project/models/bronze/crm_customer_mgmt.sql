with events as (
  select
    _ActionTS as action_ts, _ActionType as action_type,
    Customer._C_ID as c_id, Customer._C_TAX_ID as c_tax_id, Customer._C_GNDR as c_gndr,
    cast(Customer._C_TIER as int) as c_tier, Customer._C_DOB as c_dob,
    Customer.Name.C_L_NAME as c_l_name, Customer.Name.C_F_NAME as c_f_name, Customer.Name.C_M_NAME as c_m_name,
    Customer.Address.C_ADLINE1 as c_adline1, Customer.Address.C_ADLINE2 as c_adline2,
    Customer.Address.C_ZIPCODE as c_zipcode, Customer.Address.C_CITY as c_city,
    Customer.Address.C_STATE_PROV as c_state_prov, Customer.Address.C_CTRY as c_ctry,
    Customer.ContactInfo.C_PRIM_EMAIL as c_prim_email, Customer.ContactInfo.C_ALT_EMAIL as c_alt_email,
    {% for n in (1, 2, 3) -%}
    {% set number = 'Customer.ContactInfo.C_PHONE_' ~ n -%}
    {{ phone(number ~ '.C_CTRY_CODE', number ~ '.C_AREA_CODE', number ~ '.C_LOCAL', number ~ '.C_EXT') }} as c_phone_{{ n }},
    {% endfor -%}
    Customer.TaxInfo.C_LCL_TX_ID as c_lcl_tx_id, Customer.TaxInfo.C_NAT_TX_ID as c_nat_tx_id,
    Customer.Account._CA_ID as ca_id, cast(Customer.Account._CA_TAX_ST as int) as ca_tax_st,
    Customer.Account.CA_B_ID as ca_b_id, Customer.Account.CA_NAME as ca_name
  from {{ source('tpcdi', 'batch1_customer_mgmt') }}
  union all
  select
    timestamp_seconds(cdc_dsn),
    case when cdc_flag = 'I' then 'NEW' when status = 'INAC' then 'INACT' else 'UPDCUST' end,
    customerid, taxid, gender, cast(tier as int), dob, lastname, firstname, middleinitial,
    addressline1, addressline2, postalcode, city, stateprov, country, email1, email2,
    {% for n in (1, 2, 3) -%}
    {{ phone('c_ctry_' ~ n, 'c_area_' ~ n, 'c_local_' ~ n, 'c_ext_' ~ n) }},
    {% endfor -%}
    lcl_tx_id, nat_tx_id, cast(null as bigint), cast(null as int), cast(null as bigint), cast(null as string)
  from {{ source('tpcdi', 'staging_customer') }}
  where cdc_flag in ('I', 'U')
  union all
  select
    timestamp_seconds(cdc_dsn),
    case when cdc_flag = 'I' then 'ADDACCT' when ca_st_id = 'INAC' then 'CLOSEACCT' else 'UPDACCT' end,
    ca_c_id, cast(null as string), cast(null as string), cast(null as int), cast(null as date),
    {% for n in range(14) %}cast(null as string), {% endfor %}
    cast(null as string), cast(null as string),
    accountid, cast(taxstatus as int), ca_b_id, accountdesc
  from {{ source('tpcdi', 'staging_account') }}
  where cdc_flag in ('I', 'U')
)
select * from events
{{ only_newer('action_ts') }}
