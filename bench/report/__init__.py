"""Records in, tables and pictures out."""
