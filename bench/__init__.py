"""Compare BERT compression methods: plan, run, measure, record, report. The Python interface is ``bench.api``."""

__version__ = "0.1.0"
