"""The one loop, what it makes once, and evaluation."""
