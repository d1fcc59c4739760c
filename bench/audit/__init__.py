"""Checks of printed results tables: what does not add up, cell by cell."""
