select origin, time_hour, temp, wind_speed, precip, visib
from parquet.`{{ var('arrivals') }}/weather`
