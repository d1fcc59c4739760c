"""Metrics, and statistics of their values: forms of answers, resampling, paired comparisons, power, spreads and suspect scores."""
