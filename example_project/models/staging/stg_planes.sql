select tailnum, year as built, manufacturer, model, seats, version
from parquet.`{{ var('arrivals') }}/planes`
