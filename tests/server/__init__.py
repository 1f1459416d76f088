"""agent serve."""
