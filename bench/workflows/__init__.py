"""The commands that combine several layers, mostly one in a file; run_summary.py is a part of
run.py."""
