"""The methods that dbt and macros call, one mixin per subject. They parse, delegate to
`materialization`, and translate errors.
"""
