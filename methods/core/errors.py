"""The errors of the contract: what can be wrong with a method or with what it reads."""

from __future__ import annotations


class MethodError(ValueError):
    """A setting or a combination that a method cannot honour; the message says what to type
    instead."""


class UndeclaredNeed(RuntimeError):
    """A term read something of a model that it does not declare, or declared what this model has
    not."""


class EmptyAttention(RuntimeError):
    """A model's attention did not run through the packed kernel: its scores would be empty or mix
    sequences."""
