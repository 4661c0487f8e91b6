"""The methods that dbt and macros call, by subject: they parse, delegate, and translate errors."""
