"""What can be told, and changed, in the user's SQL by its tokens. Knows no dbt and no Spark."""
