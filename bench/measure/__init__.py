"""Measurements: sizes, memory and speed of models; and the machine: its cores, memory and devices,
and how busy it is.
"""
