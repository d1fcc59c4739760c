"""The checks of ``check-method``."""
