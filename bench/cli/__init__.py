"""The command line."""

from bench.cli.app import app, main

__all__ = ["app", "main"]
