"""Publishes a shard's contents as a plain table for other engines, over the shard's own files."""

from dbt.adapters.mvsink.published.publication import Publication, is_published, publish, unpublish
from dbt.adapters.mvsink.published.shown_rows import NotLocated
