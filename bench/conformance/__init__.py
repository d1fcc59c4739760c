"""What ``check-method`` checks."""
