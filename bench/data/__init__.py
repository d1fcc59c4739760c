"""Tasks, sources and batches."""
