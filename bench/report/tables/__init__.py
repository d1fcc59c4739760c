"""The tables of a report, one file each; ``registry`` finds them."""
