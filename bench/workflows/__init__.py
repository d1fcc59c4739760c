"""Verbs of several steps: each file plans, runs, reports or compares, in that order, for one command."""
