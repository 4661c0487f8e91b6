select sk_customer_id, sk_account_id, transaction_date, description, sum(amount) as amount
from {{ ref('fact_cash_transactions') }}
group by sk_customer_id, sk_account_id, transaction_date, description
