"""Benchmarks: both sides in one process, ratios printed."""
