"""Teachers that a record's hash of weights tells, whatever folder they lay in. No torch."""

from __future__ import annotations

from collections.abc import Mapping

EMBEDDED_NAME = "all-MiniLM-L6-v2 (embedded)"
EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Name and weights of the small teacher that a package brings."""
MPNET_SHA256 = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"
PUBLIC_WEIGHTS: Mapping[str, str] = {
    MPNET_SHA256: "sentence-transformers/all-mpnet-base-v2 at e8c3b32edf54",
}
"""Weights of a known sha256 -> their name and revision on the hub, whatever folder they lie in."""
TRAINED_ON_PAIRS = (EMBEDDED_SHA256, MPNET_SHA256)
"""Weights of sentence encoders that have seen the pairs of MultiNLI, SNLI and Quora, by sha256."""
