"""Metrics, and statistics of their values.

Forms of answers, resampling, paired comparisons, power, spreads and suspect scores.
"""
