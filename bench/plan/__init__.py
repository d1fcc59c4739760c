"""From what a person typed to cells with keys."""
