"""Publishes a shard's contents as a plain table for other engines, over the shard's own files."""

from dbt.adapters.mvsink.published.formats import TableFormat, check_publishable, recorded, table_of
from dbt.adapters.mvsink.published.protocol import TableDocs
from dbt.adapters.mvsink.published.publication import (
    Publication,
    is_published,
    publish,
    published_version,
    retire,
    unpublish,
)
from dbt.adapters.mvsink.published.shown_rows import NotLocated
