{%- set filled = [
  'tax_id', 'last_name', 'first_name', 'middle_name', 'gender', 'tier', 'dob', 'address_line1', 'address_line2',
  'postal_code', 'city', 'state_province', 'country', 'phone1', 'phone2', 'phone3', 'email1', 'email2',
  'local_tax_rate_desc', 'local_tax_rate', 'national_tax_rate_desc', 'national_tax_rate'
] -%}
with matched as (
  select
    {{ surrogate_key(['c.customer_id', 'c.effective_timestamp']) }} as sk_customer_id,
    c.customer_id, c.status, {% for name in filled %}c.{{ name }}, {% endfor %}
    p.agency_id, p.credit_rating, p.net_worth, c.effective_timestamp, c.end_timestamp, c.is_current
  from {{ ref('customers') }} c
  left join {{ ref('syndicated_prospect') }} p
    on p.first_name = c.first_name and p.last_name = c.last_name and p.postal_code = c.postal_code
    and p.address_line1 = c.address_line1 and coalesce(p.address_line2, '') = coalesce(c.address_line2, '')
)
select
  sk_customer_id, customer_id, status,
  {% for name in filled -%}
  coalesce({{ name }}, last_value({{ name }}, true) over (partition by customer_id order by effective_timestamp)) as {{ name }},
  {% endfor -%}
  agency_id, credit_rating, net_worth, effective_timestamp, end_timestamp, is_current
from matched
