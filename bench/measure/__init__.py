"""Measure sizes, memory and speed of models, and the machine and how busy it is."""
