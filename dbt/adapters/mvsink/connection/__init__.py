"""The embedded Spark session: dbt's connection on it, the Java it needs, whose turn it is at the
metastore, where its log goes.
"""
