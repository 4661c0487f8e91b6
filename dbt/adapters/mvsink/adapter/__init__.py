"""The methods that dbt and macros call, one mixin per subject: they parse, delegate, and translate
errors."""
