"""What a model's config may say, checked before any SQL runs: one module per subject."""
