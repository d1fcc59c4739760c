"""Measurements: sizes, memory and speed of models; and the machine: its cores, memory, load and devices."""
