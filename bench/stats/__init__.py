"""What numbers may be said to show."""
