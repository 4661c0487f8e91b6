"""TPC-DI as a dbt project: sources with a scale, batches that change them, and a comparison of ways
to keep its 49 tables.
"""
