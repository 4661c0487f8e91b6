"""Publishes a shard's contents as a plain table for other engines, over the shard's own files."""

from dbt.adapters.mvsink.published.publication import (
    Publication,
    is_published,
    publish,
    published_version,
    unpublish,
)
from dbt.adapters.mvsink.published.shown_rows import NotLocated
from dbt.adapters.mvsink.published.table_log import TableDocs
