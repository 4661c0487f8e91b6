"""Parsing and checking a model's config before any SQL runs: one module per subject."""
